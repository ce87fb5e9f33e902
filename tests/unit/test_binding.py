"""Noise belongs to its question: another question with the same seed has other noise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from smoothcert.engine.case import bound_seed, certify, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.pixels import Pixels
from smoothcert.noise import Gaussian, RoundedGaussian
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.support.networks import tiny

SHAPE = (1, 4, 4)


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return assemble([tiny(0), tiny(1)], classes=("a", "b", "c"), input_shape=SHAPE)


def image(value: int = 100) -> torch.Tensor:
    return torch.full(SHAPE, value, dtype=torch.uint8)


QUESTION = Question(Gaussian(0.25), Sequential(max_samples=500), radius=0.25)


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, noise=RoundedGaussian(0.25)),
        replace(QUESTION, noise=Gaussian(0.5)),
        replace(QUESTION, procedure=Sequential(max_samples=501)),
        replace(QUESTION, procedure=Adaptive()),
        replace(QUESTION, procedure=Fixed(), radius=None),
        replace(QUESTION, radius=0.26),
        replace(QUESTION, alpha=0.002),
        replace(QUESTION, beta=0.002),
    ],
    ids=str,
)
def test_another_question_has_other_noise(ensemble: Ensemble, other: Question) -> None:
    pixels = Pixels.of(image(), SHAPE)
    assert bound_seed("seed", QUESTION, pixels, ensemble) != bound_seed("seed", other, pixels, ensemble)


def test_another_image_vote_consensus_or_seed_has_other_noise(ensemble: Ensemble) -> None:
    pixels = Pixels.of(image(), SHAPE)
    seeds = {
        bound_seed("seed", QUESTION, pixels, ensemble),
        bound_seed("other", QUESTION, pixels, ensemble),
        bound_seed("seed", QUESTION, Pixels.of(image(101), SHAPE), ensemble),
        bound_seed("seed", QUESTION, pixels, ensemble.with_(voting="hard")),
        bound_seed("seed", QUESTION, pixels, ensemble.with_(consensus=1)),
        bound_seed("seed", QUESTION, pixels, ensemble.first_k(1)),
    }
    assert len(seeds) == 6


def test_the_same_question_has_the_same_counts_and_names_its_scheme(ensemble: Ensemble) -> None:
    with Engine(ensemble) as engine:
        first, second = (certify(engine, image()[None], QUESTION, seed="seed")[0] for _ in range(2))
        (family,) = certify(engine, image()[None], QUESTION.shared_by(1), seed="seed")
    assert first.stages == second.stages
    assert first.selection == second.selection == family.selection  # shared by one image, alpha is the same
    assert verify(first)
    assert first.provenance is not None
    assert first.provenance.sampling.scheme == "question/torch-normal-32"


def test_a_certificate_of_the_first_edition_is_repeated_from_its_seed_alone(ensemble: Ensemble) -> None:
    with Engine(ensemble) as engine:
        case = start(engine, image(), QUESTION, seed="seed", bound=False)
        raw = engine.submit(QUESTION.start(), image(), QUESTION.noise, "seed").result()
        certificate = case.result()
    assert certificate.selection == raw.verdict.selection
    assert certificate.provenance is not None
    assert certificate.provenance.sampling.scheme == "torch-normal-32"
