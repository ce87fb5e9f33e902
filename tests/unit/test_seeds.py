"""Noise is bound to its question, and a service can show that it did not choose the seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from app.requests.seeding import Seeding, sha256
from smoothcert.engine.case import certify, ensemble_record, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import StreamError
from smoothcert.engine.pixels import Pixels
from smoothcert.noise import Gaussian, RoundedGaussian
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from smoothcert.seeds import bound_seed, commitment, service_seed
from smoothcert.verification import verify
from tests.support import engines

QUESTION = Question(Gaussian(0.25), Sequential(max_samples=500), radius=0.1)
PIXELS = "ab" * 32


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return engines.ensemble(2)


def seed_of(ensemble: Ensemble, question: Question = QUESTION, seed: str = "seed", pixels: str = PIXELS) -> str:
    return bound_seed(seed, question, ensemble_record(ensemble), pixels)


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
    assert seed_of(ensemble) != seed_of(ensemble, other)


def test_another_image_vote_consensus_ensemble_or_seed_has_other_noise(ensemble: Ensemble) -> None:
    seeds = {
        seed_of(ensemble),
        seed_of(ensemble, seed="other"),
        seed_of(ensemble, pixels="cd" * 32),
        seed_of(ensemble.with_(voting="hard")),
        seed_of(ensemble.with_(consensus=1)),
        seed_of(ensemble.first_k(1)),
    }
    assert len(seeds) == 6


def test_the_best_of_many_looks_cannot_be_shown_as_a_fixed_certificate(ensemble: Ensemble) -> None:
    """With one seed for all questions, the first look of `sequential` would be the whole of a `fixed` certificate."""
    image = engines.images(1)[0]
    with Engine(ensemble) as engine:
        looks = certify(engine, [image], replace(QUESTION, radius=0.3), seed="seed")[0]
        first = looks.stages[0]
        shown = replace(QUESTION, procedure=Fixed(n=first.n), radius=None)
        (fixed,) = certify(engine, [image], shown, seed="seed")
        (unbound, again) = (
            start(engine, image, question, seed="seed", bound=False).result()
            for question in (replace(QUESTION, radius=0.3), shown)
        )
    assert unbound.stages[0].counts == again.stages[0].counts  # the first edition did this
    assert first.counts != fixed.stages[0].counts


def test_the_same_question_has_the_same_counts_and_names_its_scheme(ensemble: Ensemble) -> None:
    image = engines.images(1)[0]
    with Engine(ensemble) as engine:
        first, second = (certify(engine, [image], QUESTION, seed="seed")[0] for _ in range(2))
    assert (first.selection, first.stages) == (second.selection, second.stages)
    assert verify(first)
    assert first.format == "smoothcert/certificate/2"
    assert first.provenance is not None
    assert first.provenance.sampling.scheme == "question/torch-normal-32"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("scheme", "torch-normal-32", "provenance.sampling.scheme"),
        ("scheme", "question/philox-62-rounded-gaussian", "provenance.sampling.scheme"),
    ],
)
def test_a_certificate_with_the_scheme_of_another_format_or_noise_is_refused(
    ensemble: Ensemble, path: str, value: str, field: str
) -> None:
    with Engine(ensemble) as engine:
        (certificate,) = certify(engine, engines.images(1), QUESTION, seed="seed")
    provenance = certificate.provenance
    assert provenance is not None
    sampling = provenance.sampling.model_copy(update={path: value})
    changed = certificate.model_copy(update={"provenance": provenance.model_copy(update={"sampling": sampling})})
    signed = changed.model_copy(update={"digest": changed.expected_digest()})
    assert [problem.field for problem in verify(signed).problems] == [field]


@pytest.mark.parametrize("seed", ["", "é", "a\n", "x" * 257, 7])
def test_a_seed_that_cannot_be_one_is_refused_before_it_is_bound(ensemble: Ensemble, seed: str) -> None:
    with Engine(ensemble) as engine, pytest.raises(StreamError, match="a seed must be"):
        start(engine, engines.images(1)[0], QUESTION, seed=seed)


# --- the service


REQUEST = CertificationRequest(radius=0.25, noise=RoundedGaussian(0.25), nonce="0123")


def test_a_seed_follows_from_secret_request_images_and_nonce_and_from_nothing_else() -> None:
    images = np.arange(96, dtype=np.uint8).reshape(2, 3, 4, 4)
    seeding = Seeding.of(b"secret")
    drawn, seed = seeding.draw(REQUEST, images)
    assert drawn == REQUEST
    assert seed == seeding.draw(REQUEST, images)[1] == service_seed(b"secret", REQUEST, [sha256(i) for i in images])
    others = {
        Seeding.of(b"another").draw(REQUEST, images)[1],
        seeding.draw(REQUEST.model_copy(update={"nonce": "4567"}), images)[1],
        seeding.draw(REQUEST.model_copy(update={"radius": 0.5}), images)[1],
        seeding.draw(REQUEST, images[::-1])[1],
    }
    assert len({seed} | others) == 5
    assert commitment(b"secret") != commitment(b"another")


def test_a_nonce_is_drawn_where_the_client_gives_none() -> None:
    images = np.zeros((1, 3, 4, 4), np.uint8)
    open_ = REQUEST.model_copy(update={"nonce": None})
    (first, one), (second, other) = (Seeding.of(None).draw(open_, images) for _ in range(2))
    assert None not in (first.nonce, second.nonce)
    assert first.nonce != second.nonce
    assert one != other


def test_the_hash_of_an_image_is_that_of_its_certificate() -> None:
    """This holds for all bytes, and for floating-point values."""
    bytes_ = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    values = np.random.default_rng(1).random((3, 5, 5), np.float32)
    for image in (bytes_, values):
        assert sha256(image) == Pixels.of(torch.from_numpy(image), image.shape).sha256
