"""Splitting noise and the exact procedure: golden numbers, enumeration of small cases, and the way to a certificate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert import verify
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.sampling import NoisyImage
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, Splitting
from smoothcert.noise.splitting import template_of
from smoothcert.plan import plan
from smoothcert.procedures import Exact, Fixed, Sequential
from smoothcert.question import Question
from tests.support import engines

GOLDEN = [
    ([510, 0, 0], 0, 255),
    ([0, 510, 0], 1, 254),
    ([300, 200, 10], 0, 50),
    ([200, 300, 10], 1, 49),
    ([255, 255, 0], 0, 0),
    ([200, 160, 150], 0, 20),
    ([128, 128, 254], 2, 62),
    ([3, 4, 503], 2, 249),
    ([171, 170, 169], 0, 0),
    ([254, 256, 0], 1, 0),
]


@pytest.mark.parametrize(("counts", "winner", "levels"), GOLDEN)
def test_the_class_and_the_radius_of_counts(counts: list[int], winner: int, levels: int) -> None:
    top, radius = Splitting(1.0).proved([*counts, 0])
    assert top == winner
    assert int(255 * radius) == levels  # 255 r does not fall below the whole number of levels
    assert radius == pytest.approx(levels / 255, abs=1e-6)


def test_shifts_without_a_class_are_a_rival_that_comes_last() -> None:
    assert Splitting(1.0).proved([300, 0, 0, 210])[1] == pytest.approx(45 / 255, abs=1e-6)
    assert Splitting(1.0).proved([255, 0, 0, 255])[1] == 0
    assert Splitting(1.0).proved([254, 0, 0, 256])[1] < 0


@pytest.mark.parametrize(
    ("width", "a", "v", "j", "low", "high"),
    [
        (510, 0, 0, 0, 0, 1),
        (510, 255, 0, 0, 1, 510),
        (510, 100, 99, 0, 199, 510),
        (510, 100, 100, 0, 0, 201),
        (510, 128, 500, 20, 21, 510),
        (220, 255, 0, 0, 441, 510),
        (220, 128, 500, 20, 161, 510),
        (220, 0, 509, 1, 0, 141),
    ],
)
def test_the_cell_of_a_byte(width: int, a: int, v: int, j: int, low: int, high: int) -> None:
    """The ends are in half levels; a network sees their centre."""
    noise = Splitting(width / 510)
    out = torch.empty(1, 1, 1, 1)
    split = torch.tensor([[[[2 * ((v + j) % width) + 1]]]], dtype=torch.int32)
    noise.apply(out, torch.tensor([[[2 * a]]], dtype=torch.int32), split)
    assert out.item() == np.float32((low + high) / 4 / 255)


def counts_of(classify: dict[tuple[float, ...], int], noise: Splitting, image: tuple[int, ...]) -> list[int]:
    pixels = torch.tensor(image, dtype=torch.float32).view(1, 1, -1) / 255
    out = torch.empty(noise.outcomes, 1, 1, len(image))
    NoisyImage(noise, pixels, "s", 0).sample(out, 0)
    found = [0, 0, 0, 0]
    for row in out.flatten(1).tolist():
        found[classify.setdefault(tuple(row), len(classify) * 7 % 3)] += 1
    return found


@pytest.mark.parametrize("template", range(4))
def test_counts_change_by_at_most_the_distance_and_the_class_not_within_the_radius(template: int) -> None:
    """These are all pairs of images of two bytes from a few, with a classifier that tells every noisy image apart."""
    noise = Splitting(0.1, template)
    table: dict[tuple[float, ...], int] = {}
    places = list(itertools.product((100, 101, 103, 110), repeat=2))
    counted = {image: counts_of(table, noise, image) for image in places}
    smoothed = {image: noise.proved(found) for image, found in counted.items()}
    for here, there in itertools.product(places, repeat=2):
        distance = sum(abs(a - b) for a, b in zip(here, there, strict=True))
        changes = [abs(a - b) for a, b in zip(counted[here], counted[there], strict=True)]
        assert max(changes) <= distance
        top, radius = smoothed[here]
        if distance <= 255 * radius:
            assert smoothed[there][0] == top


@pytest.mark.parametrize("distance", [1, 7, 254])
def test_exactly_as_many_shifts_split_two_bytes_as_they_are_apart(distance: int) -> None:
    noise = Splitting(1.0, 3)
    seen = []
    for byte in (0, distance):
        out = torch.empty(510, 1, 1, 1)
        NoisyImage(noise, torch.full((1, 1, 1), byte / 255), "s", 0).sample(out, 0)
        seen.append(out)
    assert int((seen[0] != seen[1]).sum()) == distance


def test_the_template_is_the_same_everywhere_and_belongs_to_its_seed() -> None:
    assert template_of(510, 0, (1, 2, 3)).tolist() == template_of(510, 0, (1, 2, 3)).tolist()
    assert template_of(510, 0, (3, 8, 8)).tolist() != template_of(510, 1, (3, 8, 8)).tolist()
    assert 200 < template_of(510, 0, (3, 32, 32)).mean() < 310


def test_the_samples_of_training_are_those_of_certification() -> None:
    noise = Splitting(0.5, 7)
    pixels = torch.arange(48, dtype=torch.float32).view(3, 4, 4) * 5 / 255
    every = torch.empty(noise.outcomes, 3, 4, 4)
    NoisyImage(noise, pixels, "s", 0).sample(every, 0)
    drawn = noise.perturb(pixels.expand(64, 3, 4, 4), torch.Generator().manual_seed(1))
    known = {row.numpy().tobytes() for row in every}
    assert {row.numpy().tobytes() for row in drawn} <= known
    assert len({row.numpy().tobytes() for row in drawn}) > 30


@pytest.mark.parametrize("reach", [0.0, -1.0, math.nan, 0.001, 0.3333, 11.0])
def test_a_reach_that_cannot_be_is_refused(reach: float) -> None:
    with pytest.raises(DomainError, match="reach must"):
        Splitting(reach)


@pytest.mark.parametrize("template", [-1, 2**32, True, 1.5])
def test_a_template_that_cannot_be_is_refused(template: int) -> None:
    with pytest.raises(DomainError, match="template must be a whole number"):
        Splitting(1.0, template)


# --- the procedure


class Brightness(nn.Module):
    """A network that gives class 1 to images that are light on average, and class 0 to others."""

    def forward(self, x: Tensor) -> Tensor:
        light = x.flatten(1).mean(1, keepdim=True) - 0.5
        return torch.cat([-light, light], 1)


def test_a_certificate_without_alpha_goes_through_json_and_verify() -> None:
    ensemble = assemble([Brightness()], classes=("dark", "light"), input_shape=engines.SHAPE, optimise=False)
    image = torch.full(engines.SHAPE, 200, dtype=torch.uint8)
    with Engine(ensemble) as engine:
        first, again = (
            certify(engine, [image], Question(Splitting(1.0), Exact()), seed=seed)[0] for seed in ("one", "other")
        )
    assert (first.decision, first.class_name, first.alpha) == ("certified", "light", None)
    assert first.stages == again.stages  # nothing is random
    assert first.samples == 510
    assert first.radius > 0.1
    assert verify(first).problems == ()
    read = Certificate.from_json(first.to_json())
    assert read == first
    for change in ({"alpha": 0.001}, {"radius": first.radius + 1 / 255}, {"class_index": 0}):
        changed = read.model_copy(update=change)
        signed = changed.model_copy(update={"digest": changed.expected_digest()})
        assert [problem.field for problem in verify(signed).problems] == [*change]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(Splitting(1.0), Fixed()), "the fixed procedure draws random samples, and splitting noise has 510"),
        (Question(Splitting(1.0), Sequential(), 0.1), "ask for the procedure exact"),
        (Question(Gaussian(0.25), Exact()), "evaluates all outcomes of a noise, and gaussian noise is random"),
    ],
)
def test_a_procedure_that_does_not_go_with_the_noise_is_refused(question: Question, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        question.start()


def test_a_plan_reaches_as_far_as_the_largest_radius() -> None:
    found = plan(Exact(), Splitting(1.0), 1.0)
    assert (found.feasible, found.largest_radius, found.samples_needed, found.most_samples) == (True, 1.0, 510, 510)
    assert not plan(Exact(), Splitting(1.0), 1.1).feasible
