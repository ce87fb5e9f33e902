"""Thresholds of a run for the largest radius: golden numbers, every rule of a tiny run, and the mutants they kill."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from math import inf

import numpy as np
import pytest
from scipy import stats

from smoothcert import largest
from smoothcert.bounds import lower_bound
from smoothcert.errors import DomainError
from smoothcert.largest import Thresholds, reach, thresholds
from smoothcert.noise import Gaussian, Noise, Uniform
from tests.support.optimal import sha256

ALPHA = 0.001


def make(
    sigma: float, alpha: float = ALPHA, beta: float = 0.001, price: int = 3_000_000, max_samples: int = 100_000
) -> Thresholds:
    return thresholds(Gaussian(sigma), alpha=alpha, beta=beta, price=price, max_samples=max_samples)


Row = tuple[int, int, int]


@pytest.mark.parametrize(
    ("arguments", "rows", "ends", "abandon"),
    [
        (
            (0.25,),
            [
                *[(32, -1, 4), (64, -1, 16), (96, -1, 29), (128, -1, 42), (11_840, -1, 5_861), (13_056, 9_980, -1)],
                *[(14_368, 12_522, -1), (15_808, 14_589, -1), (80_384, 80_375, -1), (88_448, 88_442, -1)],
                (100_000, 100_000, -1),
            ],
            "c15ae912507634dfa7d2e4d7f722b173f41fd4ab16afc3461e446e76c94da98b",
            "55c22e8ae0088214f4b19869bc33e31299971128d61afe3569e689c4bd843e59",
        ),
        (
            (1.0,),
            [
                *[(32, -1, 4), (64, -1, 15), (96, -1, 28), (28_096, -1, 13_956), (30_912, 16_762, -1)],
                *[(34_016, 27_681, -1), (88_448, 88_220, -1)],
            ],
            "3477d6ead9cbf56de6e742466f39e531d8ed885c0432124198b954be5bf5eec6",
            "5a41d64e0d7427d82037480adfd278bf95471d5d274e0bd319ccba835d2b95db",
        ),
        (
            (0.5, 1e-5, 0.01, 1_000_000, 50_000),
            [
                *[(32, -1, 6), (64, -1, 19), (10_752, -1, 5_410), (11_840, 7_938, -1), (13_056, 10_975, -1)],
                (45_312, 45_282, -1),
            ],
            "5947b2759e553d8607fae65da7d68a8644bc995dbc9ca7ab9a9ca39ffffab646",
            "cd062614cdeb270f447067c987fe0919ac83f7afb93770aeff969b20938e090e",
        ),
        (
            (0.25, ALPHA, 0.001, 100_000, 3_000),
            [(32, -1, 6), (64, -1, 19), (1_184, -1, 576), (1_312, 933, -1), (1_472, 1_273, -1), (2_720, 2_700, -1)],
            "045df9b7f68df0c7cf3bdbb80e420b846f86a361036b26b75def8d02f9964d78",
            "6764ed9daafb88f13125b7a351e17d56a6ad6e87d537d2b9dc4a4e0b655b8e58",
        ),
    ],
)
def test_the_thresholds_have_their_golden_values(
    arguments: tuple[float, ...], rows: list[Row], ends: str, abandon: str
) -> None:
    """Mutants killed: the radius of k at a later look instead of the rate's; a price in radius / sigma (see below)."""
    rule = make(*arguments)  # type: ignore[arg-type]
    assert set(rows) <= set(zip(rule.looks.tolist(), rule.ends.tolist(), rule.abandon.tolist(), strict=True))
    assert (sha256(rule.ends), sha256(rule.abandon)) == (ends, abandon)


def test_small_thresholds_have_their_golden_values() -> None:
    rule = make(0.25, price=50_000, max_samples=1_000)
    assert rule.ends.tolist() == [-1] * 17 + [680, 832, 1000]
    low = "7 21 36 51 67 83 99 115 131 147 163 196 228 260 293 325 373 -1 -1 -1"
    assert rule.abandon.tolist() == [int(each) for each in low.split()]


def test_another_gain_or_price_would_move_the_golden_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh() -> list[int]:
        largest.thresholds.cache_clear()
        return make(0.25, price=100_000, max_samples=3_000).ends.tolist()

    golden = fresh()
    scaled = thresholds(Gaussian(1.0), alpha=ALPHA, beta=0.001, price=100_000, max_samples=3_000)
    assert scaled.ends.tolist() != golden, "a price in radius / sigma would not depend on sigma"

    def unscaled(later: largest._Later, count: int) -> bool:
        then = reach(later.noise, np.full(len(later.looks), count), later.looks, later.alpha)
        return bool((then - later.costs > reach(later.noise, [count], later.n, later.alpha)).any())

    monkeypatch.setattr(largest._Later, "_gains", unscaled)
    assert fresh() != golden
    largest.thresholds.cache_clear()


# --- what happens at each p, by a recursion of its own

Ending = Callable[[int, int, int], np.ndarray]
"""A function of the number of a look, its samples and the largest count: whether the run ends, for each count."""


def claims(rule: Thresholds, p: float, ends: Ending | None = None) -> tuple[float, float, float, float]:
    """E[radius], E[samples], P(abandon) and P(p_lower > p), from scipy's binomial probabilities."""
    mass, radius, samples, abandoned, false = np.ones(1), 0.0, 0.0, 0.0, 0.0
    for j, (n, step) in enumerate(zip(rule.looks.tolist(), rule.steps.tolist(), strict=True)):
        samples += step * mass.sum()
        mass = np.convolve(mass, stats.binom.pmf(np.arange(step + 1), step, p))
        k = np.arange(n + 1)
        stop = k <= rule.ends[j] if ends is None else ends(j, n, n)
        heavy = stop & (mass > 1e-25)
        bounds = np.array([lower(count, n, rule.alpha) for count in k[heavy].tolist()])
        proved = np.array([rule.noise.radius(bound) if bound > 0.5 else 0.0 for bound in bounds.tolist()])
        radius += mass[heavy] @ proved
        false += mass[heavy][bounds > p].sum()
        given_up = ~stop & (k <= rule.abandon[j])
        abandoned += mass[given_up].sum()
        mass = np.where(stop | given_up, 0.0, mass)
    return float(radius), float(samples), float(abandoned), float(false)


lower = cache(lower_bound)


@pytest.mark.parametrize("p", [0.4, 0.5, 0.55, 0.8, 0.95, 0.999, 1.0])
def test_the_outcome_agrees_with_another_recursion(p: float) -> None:
    rule = make(0.25, price=100_000, max_samples=3_000)
    radius, samples, abandoned, false = claims(rule, p)
    found = rule.outcome(p)
    assert found.radius == pytest.approx(radius, abs=1e-12)
    assert found.samples == pytest.approx(samples, rel=1e-10)
    assert found.abandon == pytest.approx(abandoned, abs=1e-12)
    assert false <= ALPHA


@pytest.mark.parametrize(
    ("sigma", "rows"),
    [
        (
            0.25,
            [
                (0.4, 0, 335.878405, 1),
                (0.5, 7.35e-07, 11593.200400, 0.234536),
                (0.53, 0.0103127208, 13055.606317, 3.08e-05),
                (0.7, 0.122179492, 13056.000000, 2e-11),
                (0.9, 0.309909721, 15808.000000, 0),
                (0.9772, 0.485221292, 21116.517027, 0),
                (0.999, 0.740340535, 47414.807672, 0),
                (0.9999, 0.869016946, 85653.017168, 0),
                (1, 0.952864141, 100000, 0),
            ],
        ),
        (
            1.0,
            [
                (0.4, 0, 377.181939, 1),
                (0.5, 1.93e-06, 27675.753636, 0.224296),
                (0.53, 0.0531810764, 30911.675017, 1.14e-05),
                (0.7, 0.502302886, 34015.999999, 2e-11),
                (0.9, 1.25556081, 41183.964389, 0),
                (0.9772, 1.96287985, 54848.000000, 0),
                (0.999, 3.00131046, 100000, 0),
                (0.9999, 3.49625693, 100000, 0),
                (1, 3.81145656, 100000, 0),
            ],
        ),
    ],
)
def test_the_expectations_are_those_of_the_golden_table(sigma: float, rows: list[tuple[float, ...]]) -> None:
    rule = make(sigma)
    for p, radius, samples, abandoned in rows:
        found = rule.outcome(p)
        assert found.radius == pytest.approx(radius, rel=1e-2 if radius < 1e-3 else 1e-8)
        assert found.samples == pytest.approx(samples, abs=1e-5)
        assert found.abandon == pytest.approx(abandoned, rel=1e-1 if abandoned < 1e-9 else 5e-3, abs=1e-15)


# --- soundness

SMALL = make(0.25, price=100_000, max_samples=3_000)


def false_claims(p: float, ends: Ending | None = None) -> float:
    return claims(SMALL, p, ends)[3]


@pytest.mark.parametrize("p", [0.5, 0.53, 0.6, 0.7, 0.756, 0.85, 0.9, 0.9005, 0.99])
def test_no_claim_is_false_more_often_than_alpha(p: float) -> None:
    """Mutants killed: the three below, each at some of these p."""
    assert false_claims(p) <= ALPHA


def ending(rule: Callable[[int, np.ndarray, int], np.ndarray]) -> Ending:
    """An ending rule from a function of the look, the counts and the golden threshold."""

    def ends(j: int, n: int, _: int) -> np.ndarray:
        last = n == SMALL.looks[-1]
        return np.ones(n + 1, bool) if last else rule(j, np.arange(n + 1), n)

    return ends


def test_going_on_where_nothing_is_proved_would_leave_a_hole() -> None:
    """The mutant goes on if p_lower is at most 1/2."""

    def mutant(j: int, k: np.ndarray, n: int) -> np.ndarray:
        return (k <= SMALL.ends[j]) & (k >= SMALL.proving[j])

    assert false_claims(0.5, ending(mutant)) > 2 * ALPHA


def test_ending_on_good_news_would_overclaim() -> None:
    """The mutant also ends if p_lower is .9 or more."""

    def mutant(j: int, k: np.ndarray, n: int) -> np.ndarray:
        return (k <= SMALL.ends[j]) | (k >= least(n))

    @cache
    def least(n: int) -> float:
        return next((k for k in range(n + 1) if lower(k, n, ALPHA) >= 0.9), inf)

    assert max(false_claims(p, ending(mutant)) for p in (0.9005, 0.901)) > 2 * ALPHA


def test_ending_from_a_count_on_would_overclaim() -> None:
    """The mutant ends at the threshold or above it instead of below."""

    def mutant(j: int, k: np.ndarray, n: int) -> np.ndarray:
        return (k >= SMALL.ends[j]) & (SMALL.ends[j] >= 0)

    assert max(false_claims(float(p), ending(mutant)) for p in np.arange(0.67, 0.69, 0.002)) > 1.5 * ALPHA


def test_a_class_chosen_on_the_counted_samples_would_be_claimed_twice_as_often() -> None:
    """The mutant has two classes of one half, and claims the one with more samples at the end."""
    certified = SMALL.outcome(0.5).certify
    assert certified <= ALPHA
    assert 2 * certified > 1.5 * ALPHA


FAILURES = (0, 1, 2, 3, 4, 6, 8, 99)
"""The failures from which on a run of the tiny example ends at a look; 99 stands for never."""


TINY = (4, 8, 12)
GRID = np.linspace(0.02, 0.999, 400)
"""The p at which the golden numbers of the tiny example were found."""


def largest_errors(alpha: float, p_as: np.ndarray, stops: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """The largest P(p_lower > p) over these p, for each of the rules whose ends `stops` gives.

    `stops` takes a look and the failures at it, and gives for each rule and number of failures whether it ends.
    """
    kernel = stats.binom.pmf(np.arange(5), 4, p_as[:, None])
    mass, false = np.ones((1, len(p_as), 1)), 0.0
    for n in TINY:
        mass = np.stack(
            [(mass[..., max(0, k - 4) : k + 1] * kernel[:, _reaching(k, n)]).sum(-1) for k in range(n + 1)], -1
        )
        bounds = np.array([lower_bound(k, n, alpha) for k in range(n + 1)])
        stop = stops(n, n - np.arange(n + 1))[:, None] | (n == TINY[-1])
        false = false + (mass * (stop & (bounds > p_as[:, None]))).sum(-1)
        mass = np.where(stop, 0.0, mass)
    return np.asarray(false).max(axis=-1)


def _reaching(k: int, n: int) -> list[int]:
    """The successes among the last four samples that lead to k of n, from k - 4 (or 0) on."""
    before = range(max(0, k - 4), min(k, n - 4) + 1)
    return [k - each for each in before]


PAIRS = np.array(list(itertools.product(FAILURES, repeat=2)))


def on_bad_news(n: int, failures: np.ndarray) -> np.ndarray:
    """All 64 pairs of thresholds at the looks 4 and 8 before 12."""
    return failures >= PAIRS[:, [min(TINY.index(n), 1)]]


def on_good_news(n: int, failures: np.ndarray) -> np.ndarray:
    """The mutants: the 16 pairs of up to three failures, for runs that end at these or fewer."""
    few = np.array(list(itertools.product(range(4), repeat=2)))
    return failures <= few[:, [min(TINY.index(n), 1)]]


@pytest.mark.parametrize(("alpha", "golden", "mutant"), [(0.1, 0.099937, 0.147), (0.3, 0.299267, 0.437)])
def test_every_rule_that_ends_on_bad_news_keeps_alpha(alpha: float, golden: float, mutant: float) -> None:
    """Mutants killed: those that end on good news, none of which keeps alpha."""
    assert largest_errors(alpha, GRID, on_bad_news).max() == pytest.approx(golden, abs=5e-7)
    assert largest_errors(alpha, GRID, on_good_news).max() == pytest.approx(mutant, abs=5e-4)
    claims = [lower_bound(k, n, alpha) for n in TINY for k in range(1, n + 1)]
    worst = np.array(sorted({claim - 1e-9 for claim in claims}))  # a claim is false most often just below it
    assert 0.999 * alpha < largest_errors(alpha, worst, on_bad_news).max() <= alpha
    assert largest_errors(alpha, worst, on_good_news).min() > alpha


def test_questions_outside_the_domain_are_named() -> None:
    with pytest.raises(DomainError, match="beta divided by the looks"):
        make(0.25, beta=1e-20)
    with pytest.raises(DomainError, match="price"):
        make(0.25, price=0)
    with pytest.raises(DomainError, match="10000001"):
        make(0.25, max_samples=10_000_001)


def test_a_run_of_one_look_is_that_of_certify() -> None:
    rule = make(0.25, max_samples=20)
    assert (rule.looks.tolist(), rule.ends.tolist()) == ([20], [20])
    assert rule.certify.tolist() == rule.proving.tolist() == [18]


@pytest.mark.parametrize("noise", [Uniform(0.5)])
def test_other_noises_have_thresholds_too(noise: Noise) -> None:
    rule = thresholds(noise, alpha=ALPHA, beta=0.001, price=100_000, max_samples=2_000)
    assert rule.feasible
    assert ((rule.ends >= -1) & (rule.ends <= rule.looks)).all()
