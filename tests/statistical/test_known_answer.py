"""The engine on classifiers whose robustness is known, with the truth at the edge of the claim, for every noise.

Beside each noise stand its mutants, which claim more than is true. Each of them must fail where the noise passes.
Everything is seeded; with another seed a test of the noise itself would fail once in a million runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import comb, prod, sqrt
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.evaluation import proved_radius
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Source, Uniform
from smoothcert.noise.replacement import exact_thresholds
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.procedures.parameters import Parameters
from smoothcert.question import Question
from smoothcert.verification import verify

SHAPE = (1, 4, 4)
SIGMA = 0.25
MARGIN = 0.3
ALPHA = 0.05
RUNS, FEWER = 80, 24
SEED = "known answer"
PROCEDURES = [Fixed(n=600), Adaptive(stages=(60, 180, 600)), Sequential(max_samples=800)]


def most(runs: int) -> int:
    """The most false certificates that are plausible at ALPHA: more would happen once in a million."""
    return int(stats.binom.ppf(1 - 1e-6, runs, ALPHA))


class HalfSpace(nn.Module):
    """A classifier that gives class 1 if w x + b > 0, where |w| = 1."""

    def __init__(self, direction: Tensor, offset: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(direction / direction.norm())
        self.offset = nn.Parameter(torch.tensor(offset))

    def forward(self, x: Tensor) -> Tensor:
        side = x.flatten(1) @ self.direction + self.offset
        return torch.stack([-side, side], dim=1)


class Slab(nn.Module):
    """Class 1 if the first value is above the byte `edge`, or equal to it and the second value is above 128."""

    def __init__(self, edge: int) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, x: Tensor) -> Tensor:
        levels = (255 * x.flatten(1)).round()
        first, second = levels[:, 0], levels[:, 1]
        inside = ((first > self.edge) | ((first == self.edge) & (second > 128))).float()
        return torch.stack([1 - inside, inside], dim=1)


class WorstForFlips(nn.Module):
    """The classifier of Neyman and Pearson for a black image x and the white values 1..r of x', with two levels.

    It gives class 1 if fewer than `limit` of the first r values are white, and if `limit` of them are and a coin shows
    heads. The coin is thrown by COIN further values, which are equal in x and x': the outcomes that are heads have
    together the largest probability that does not exceed the share that would make a tie at x'.
    """

    COIN = 8

    def __init__(self, keep: Fraction, r: int) -> None:
        super().__init__()
        self.r = r
        here, there = [], []  # the probabilities of 0, ..., r white values under x and under x'
        for white in range(r + 1):
            ways = comb(r, white)
            here.append(ways * keep ** (r - white) * (1 - keep) ** white)
            there.append(ways * keep**white * (1 - keep) ** (r - white))
        self.limit = next(white for white in range(r + 1) if sum(there[: white + 1]) >= Fraction(1, 2))
        share = (Fraction(1, 2) - sum(there[: self.limit])) / there[self.limit]
        heads, left = torch.zeros(2**self.COIN), share
        outcomes = sorted(range(2**self.COIN), key=int.bit_count)
        for outcome in outcomes:
            white = outcome.bit_count()
            probability = keep ** (self.COIN - white) * (1 - keep) ** white
            if probability <= left:
                heads[outcome] = 1
                left -= probability
        self.heads = nn.Parameter(heads)
        self.p = sum(here[: self.limit]) + (share - left) * here[self.limit]
        """p_A at x, just below the threshold of r."""
        self.p_there = sum(there[: self.limit]) + (share - left) * there[self.limit]
        """The probability of the same class at x', just below 1/2."""

    def forward(self, x: Tensor) -> Tensor:
        bits = (x.flatten(1) > 0.5).long()
        white = bits[:, : self.r].sum(1)
        thrown = bits[:, self.r : self.r + self.COIN] @ 2 ** torch.arange(self.COIN)
        coin = self.heads[thrown]
        inside = torch.where(white == self.limit, coin, (white < self.limit).float())
        return torch.stack([1 - inside, inside], dim=1)


# --- the mutants: each claims more than its noise proves


class WeakerGaussian(Gaussian):
    """The mutant draws less noise than is stated."""

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        Gaussian(0.8 * self.sigma).apply(out, settled, drawn)


class WeakerRoundedGaussian(RoundedGaussian):
    """The mutant draws less noise than is stated."""

    def settle(self, pixels: Tensor) -> Tensor:
        return RoundedGaussian(0.8 * self.sigma).settle(pixels)

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return RoundedGaussian(0.8 * self.sigma).draw(source, block, shape)

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        RoundedGaussian(0.8 * self.sigma).apply(out, settled, drawn)


class WithoutRoot(GaussianLinf):
    """The mutant states the l2 radius as one in l-infinity, without sqrt(d)."""

    def radius(self, p_lower: float) -> float:
        return Gaussian(self.sigma).radius(p_lower)

    def probability(self, radius: float) -> float:
        return Gaussian(self.sigma).probability(radius)


class ReachAsDeviation(Uniform):
    """The mutant takes the reach for the standard deviation, so its radii are those of a cube sqrt(3) times as wide."""

    def radius(self, p_lower: float) -> float:
        return 2 * sqrt(3) * self.reach * (p_lower - 0.5)

    def probability(self, radius: float) -> float:
        return min(1.0, 0.5 + radius / (2 * sqrt(3) * self.reach))


class NextThreshold(Replacement):
    """The mutant uses the threshold of r - 1 for r."""

    def radius(self, p_lower: float) -> float:
        return super().radius(p_lower) + 1

    def probability(self, radius: float) -> float:
        return super().probability(max(0, radius - 1))


class KeepAsMask(Replacement):
    """The mutant keeps a value with `keep` and redraws it otherwise: it keeps its level with keep + (1 - keep) / 2."""

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return Replacement((1 + self.keep) / 2, self.levels).draw(source, block, shape)


class NotStrict(Replacement):
    """The mutant accepts p >= tau_r instead of p > tau_r."""

    def radius(self, p_lower: float) -> float:
        return sum(p_lower >= tau for tau in exact_thresholds(self.keep, self.levels, 20)) - 1


# --- the cases


@dataclass(frozen=True)
class Known:
    """A classifier and an image where the largest true radius is `truth`, and `beyond` is false.

    `within` is a smaller radius that most runs should certify: a procedure that certifies nothing is sound as well.
    """

    noise: Noise
    network: nn.Module
    image: Tensor
    truth: float
    beyond: float
    within: float
    mutants: Sequence[Noise] = field(default=())

    def certificates(self, noise: Noise, procedure: Parameters, *, radius: float, runs: int) -> list[Certificate]:
        target = None if isinstance(procedure, Fixed) else radius
        question = Question(noise, procedure, target, alpha=ALPHA, beta=ALPHA)
        ensemble = assemble([self.network], classes=("other", "own"), input_shape=SHAPE, name="known", batch=1024)
        with Engine(ensemble, batch=1024) as engine:
            return certify(engine, [self.image] * runs, question, seed=SEED)

    def false(self, noise: Noise, procedure: Parameters, runs: int) -> int:
        """The number of runs that certify more than the truth."""
        found = self.certificates(noise, procedure, radius=self.beyond, runs=runs)
        return sum(proved_radius(certificate) > self.truth for certificate in found)


def gaussian() -> Known:
    """A half-space: p_A is Phi(margin / sigma), and the margin is the radius."""
    torch.manual_seed(5)
    direction, image = torch.randn(16), torch.rand(SHAPE)
    offset = MARGIN - float(image.flatten() @ (direction / direction.norm()))
    network = HalfSpace(direction, offset)
    return Known(Gaussian(SIGMA), network, image, MARGIN, MARGIN + 1e-6, 0.7 * MARGIN, [WeakerGaussian(SIGMA)])


def gaussian_linf() -> Known:
    """A half-space whose normal points into a corner: the nearest other class is r away in every value."""
    torch.manual_seed(5)
    image = torch.rand(SHAPE)
    network = HalfSpace(torch.ones(16), MARGIN - float(image.sum() / 4))
    truth = MARGIN / 4  # sqrt(16 values) = 4
    return Known(GaussianLinf(SIGMA, 16), network, image, truth, truth + 1e-6, 0.7 * truth, [WithoutRoot(SIGMA, 16)])


def rounded_gaussian() -> Known:
    """The sum of 16 bytes; it is class 1 if the sum of the noise is above -320.

    At x', 20 levels darker in all values, this is the event that the noise has a sum above 0, which is less likely than
    1/2 because the law is symmetric. x' is sqrt(16) * 20 / 255 away, and every larger radius is false.
    """
    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    network = HalfSpace(torch.ones(16), -(16 * 128 - 320 + 0.5) / 255 / 4)
    truth = 4 * 20 / 255
    return Known(
        RoundedGaussian(SIGMA), network, image, truth, truth + 1e-6, 0.7 * truth, [WeakerRoundedGaussian(SIGMA)]
    )


def uniform() -> Known:
    """One value: N > -128, or N = -128 and a coin, so p_A is 1/2 + 128/510 except for the coin's millionths.

    128 levels darker, this is N > 0, or N = 0 and a coin of less than 1/2, which is less likely than 1/2.
    """
    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    truth = 128 / 255
    return Known(Uniform(1.0), Slab(0), image, truth, truth + 1e-6, 0.7 * truth, [ReachAsDeviation(1.0)])


def replacement() -> Known:
    """The worst classifier for two changed values: p_A is just below the threshold, so the radius is one."""
    noise, network = Replacement(0.8, 2), WorstForFlips(Fraction(4, 5), 2)
    assert 31 / 32 - 1e-6 < network.p < 31 / 32
    assert network.p_there < 0.5
    return Known(noise, network, torch.zeros(SHAPE), 1.0, 2.0, 1.0, [NextThreshold(0.8, 2), KeepAsMask(0.8, 2)])


CASES = {case.__name__: case for case in (gaussian, gaussian_linf, rounded_gaussian, uniform, replacement)}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_procedure = pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)


@each_case
@each_procedure
def test_more_than_the_truth_is_certified_at_most_alpha(case: Any, procedure: Parameters) -> None:
    """The mutants of every noise are run beside it and must fail."""
    known: Known = case()
    assert known.false(known.noise, procedure, RUNS) <= most(RUNS)
    for mutant in known.mutants:
        assert known.false(mutant, procedure, FEWER) > most(FEWER), type(mutant).__name__


@each_case
@each_procedure
def test_a_little_less_than_the_truth_is_certified_mostly(case: Any, procedure: Parameters) -> None:
    """Mutant killed: noise that is reused between the images of a request, which makes all runs agree."""
    known: Known = case()
    found = known.certificates(known.noise, procedure, radius=known.within, runs=FEWER)
    right = [each for each in found if proved_radius(each) >= known.within]
    assert len(right) > 18
    assert all(each.class_name == "own" and verify(each) for each in right)
    assert len({(each.selection, *(stage.counts for stage in each.stages)) for each in found}) > 5


@pytest.mark.parametrize(("keep", "levels"), [(0.8, 2), (0.75, 2), (0.8, 3), (0.75, 3), (0.5, 3)])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_at_the_threshold_of_replacement_the_worst_classifier_has_a_tie(keep: float, levels: int, r: int) -> None:
    """Mutants killed: p >= tau_r instead of p > tau_r, and the threshold of another r.

    Nothing is sampled: all outcomes of the r changed values are listed, and p_A is exactly where p' = 1/2.
    """
    p = tied(Fraction(str(keep)), levels, r)
    assert p == exact_thresholds(keep, levels, r)[r]
    at, above = float(p), p + Fraction(1, 10**12)
    noise = Replacement(keep, levels)
    assert noise.radius(float(above)) >= r
    if Fraction(at) == p:  # a double states it exactly, so the claim of r would be false
        assert noise.radius(at) < r
        assert NotStrict(keep, levels).radius(at) >= r
        assert NextThreshold(keep, levels).radius(at) >= r


def test_some_thresholds_are_doubles() -> None:
    """Otherwise the test above could not fail."""
    assert all(Fraction(float(tied(Fraction(4, 5), 2, r))) == tied(Fraction(4, 5), 2, r) for r in (1, 2, 3))


def tied(keep: Fraction, levels: int, r: int) -> Fraction:
    """p_A of the worst classifier whose p' is 1/2, for x = 0...0 and x' = 1...1: the outcomes by likelihood ratio."""
    other = (1 - keep) / (levels - 1)
    outcomes = []
    for z in product(range(levels), repeat=r):
        here, there = (prod((keep if value == own else other for value in z), start=Fraction(1)) for own in (0, 1))
        outcomes.append((here / there, here, there))
    p, left = Fraction(0), Fraction(1, 2)
    for _, here, there in sorted(outcomes, reverse=True):
        share = min(Fraction(1), left / there)
        p += share * here
        left -= share * there
    return p


# --- consensus, on Gaussian noise


@pytest.fixture(scope="module")
def half_spaces() -> tuple[Ensemble, Tensor]:
    """Three parallel planes whose soft vote is the middle one, and an image MARGIN away from that."""
    known = gaussian()
    assert isinstance(known.network, HalfSpace)
    direction, offset = known.network.direction.detach(), known.network.offset.item()
    networks = [HalfSpace(direction, offset + shift) for shift in (0.0, 0.1, -0.1)]
    return assemble(networks, classes=("below", "above"), input_shape=SHAPE, name="half-space", batch=1024), known.image


@pytest.mark.parametrize("procedure", PROCEDURES[1:], ids=lambda procedure: procedure.name)
@pytest.mark.parametrize("consensus", [None, 2])
def test_with_consensus_the_truth_is_the_same(
    half_spaces: tuple[Ensemble, Tensor], procedure: Parameters, consensus: int | None
) -> None:
    """Mutant killed: counting the rows without consensus for the chosen class.

    Where the first two planes disagree (a strip 0.1 wide), the full vote decides, which is the middle plane: the truth
    is the same margin with consensus and without.
    """
    ensemble, image = half_spaces
    view = ensemble.with_(consensus=consensus)
    certified = {}
    for radius, runs in ((MARGIN + 1e-3, RUNS), (0.7 * MARGIN, FEWER)):
        question = Question(Gaussian(SIGMA), procedure, radius=radius, alpha=ALPHA, beta=ALPHA)
        with Engine(ensemble, batch=1024) as engine:
            found = certify(engine, [image] * runs, question, ensemble=view, seed=SEED)
        certified[runs] = sum(certificate.decision == "certified" for certificate in found)
    assert certified[RUNS] <= most(RUNS)
    assert certified[FEWER] > 18
