"""The guarantees, computed exactly and without sampling, with the truth at the very edge of the claim.

The probabilities are computed a second time here, by a plain recursion over scipy's binomial probabilities that shares
no code with the one that builds the boundaries.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smoothcert import sequential
from smoothcert.boundaries import Boundaries
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, Sequential
from smoothcert.sequential import Abandon, certify_chances

NOISE = Gaussian(1.0)
RATIOS = [round(0.1 + 0.2 * i, 1) for i in range(20)]  # r / sigma from 0.1 to 3.9
ALPHAS = [0.05, 0.01, 0.001]
SCHEDULES = [(100, 1_000, 10_000, 120_000), (1_000, 10_000, 125_000), (50, 200, 800, 3_200, 12_800), (500,)]
BUDGETS = [100, 1_000, 10_000, 131_100]


def walk(boundaries: Boundaries, p: float, *, abandoning: bool) -> tuple[float, float]:
    """P(certify) and P(abandon) at p, from the probability of every reachable count at each look."""
    mass, start, certified, abandoned = np.ones(1), 0, 0.0, 0.0
    for step, certify, abandon in zip(boundaries.steps, boundaries.certify, boundaries.abandon, strict=True):
        low, high = (int(x) for x in stats.binom.interval(1 - 1e-15, step, p))
        low, high = max(0, low - 40), min(int(step), high + 40)
        kernel = stats.binom.pmf(np.arange(low, high + 1), step, p)
        mass, start = np.convolve(mass, kernel), start + low
        counts = start + np.arange(len(mass))
        certified += mass[counts >= certify].sum()
        abandoned += mass[counts <= abandon].sum() if abandoning else 0.0
        alive = (counts < certify) & ((counts > abandon) | (not abandoning))
        if not alive.any():
            break
        start, mass = int(counts[alive][0]), mass[alive]
    return float(certified), float(abandoned)


def fresh(boundaries: Boundaries, p: float) -> tuple[float, float]:
    """P(certify) and P(abandon) at p for stages that start anew, whose counts are independent."""
    alive, certified, abandoned = 1.0, 0.0, 0.0
    for n, certify, abandon in zip(boundaries.looks, boundaries.certify, boundaries.abandon, strict=True):
        certified += alive * stats.binom.sf(certify - 1, n, p)
        abandoned += alive * stats.binom.cdf(abandon, n, p)
        alive *= stats.binom.cdf(certify - 1, n, p) - stats.binom.cdf(abandon, n, p)
    return float(certified), float(abandoned)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
def test_adaptive_certifies_falsely_at_most_alpha(kept: bool, alpha: float, schedule: tuple[int, ...]) -> None:
    """Mutant killed: alpha in place of alpha / s (see the test below)."""
    for ratio in RATIOS:
        boundaries = Adaptive(stages=schedule, keep_samples=kept).boundaries(NOISE, ratio, alpha=alpha, beta=alpha)
        p0 = NOISE.probability(ratio)
        certified, abandoned = walk(boundaries, p0, abandoning=True) if kept else fresh(boundaries, p0)
        never_abandoning, _ = walk(boundaries, p0, abandoning=False) if kept else (certified, 0)
        assert max(certified, never_abandoning) <= alpha, ratio
        assert abandoned <= alpha, ratio
        outcome = boundaries.outcome(p0)
        assert outcome.certify == pytest.approx(certified, rel=1e-6, abs=1e-12)
        assert outcome.abandon == pytest.approx(abandoned, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
def test_without_its_share_of_alpha_adaptive_would_certify_falsely(kept: bool) -> None:
    """The mutant itself: each stage at the full alpha breaks the claim, so the test above can fail."""
    s = 4
    mutant = Adaptive(keep_samples=kept).boundaries(NOISE, 1.0, alpha=0.05 * s, beta=0.001)
    certified, _ = (
        walk(mutant, NOISE.probability(1.0), abandoning=True) if kept else fresh(mutant, NOISE.probability(1.0))
    )
    assert certified > 0.05


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_sequential_certifies_falsely_at_most_alpha(alpha: float, budget: int) -> None:
    """Soundness must not rest on abandoning, so this is checked with the abandon rule and without it."""
    for ratio in RATIOS:
        p0 = NOISE.probability(ratio)
        boundaries = Sequential(max_samples=budget).boundaries(NOISE, ratio, alpha=alpha, beta=alpha)
        ever, _ = walk(boundaries, p0, abandoning=False)
        certified, abandoned = walk(boundaries, p0, abandoning=True)
        assert certified <= ever * (1 + 1e-12) <= alpha, ratio
        assert abandoned <= alpha, ratio
        outcome = boundaries.outcome(p0)
        assert outcome.certify == pytest.approx(certified, rel=1e-6, abs=1e-12)
        assert outcome.abandon == pytest.approx(abandoned, rel=1e-6, abs=1e-12)


def test_the_budget_of_alpha_is_used_where_counts_are_fine_enough() -> None:
    """A boundary that never certified would pass every test above; this one must spend what it is given."""
    boundaries = Sequential().boundaries(NOISE, 1.0, alpha=0.01, beta=0.01)
    ever, _ = walk(boundaries, NOISE.probability(1.0), abandoning=False)
    _, abandoned = walk(boundaries, NOISE.probability(1.0), abandoning=True)
    assert ever > 0.98 * 0.01
    assert abandoned > 0.98 * 0.01


def test_a_peek_between_looks_would_break_alpha() -> None:
    """The mutant compares with the boundary after every sample instead of at the looks."""
    alpha, p0 = 0.05, NOISE.probability(1.0)
    design = Sequential(max_samples=1_000).boundaries(NOISE, 1.0, alpha=alpha, beta=alpha)
    n = np.arange(1, 1_001)
    # Between two looks the mutant uses the rate of the next look's boundary.
    nearest = np.searchsorted(design.looks, n)
    rate = design.certify[nearest] / design.looks[nearest]
    peeking = Boundaries(n, np.ceil(rate * n).astype(int).clip(1), np.full(len(n), -1))
    ever, _ = walk(peeking, p0, abandoning=False)
    assert ever > alpha


@pytest.mark.parametrize(
    ("ratio", "alpha", "beta", "budget"),
    [
        (0.1, 0.001, 0.001, 10_000),
        (1.0, 0.001, 0.001, 131_100),
        (1.0, 0.05, 0.01, 10_000),
        (2.0, 0.01, 0.05, 3_000),
        (3.0, 0.001, 0.001, 131_100),
        (3.9, 0.001, 0.01, 200_000),
    ],
)
def test_lost_certificates_stay_within_beta_at_every_p(ratio: float, alpha: float, beta: float, budget: int) -> None:
    """This is checked on a grid much finer than the one that the boundaries were built on.

    The loss is what abandoning takes: P(certify without abandoning) - P(certify with it).
    """
    flavour: Abandon = "lost-certificate"
    p0 = NOISE.probability(ratio)
    boundaries = Sequential(max_samples=budget, abandon=flavour).boundaries(NOISE, ratio, alpha=alpha, beta=beta)
    spread = np.sqrt(p0 * (1 - p0) / budget)
    grid = np.unique(np.concatenate([p0 + np.arange(0, 12, 0.23) * spread, p0 + (1 - p0) * np.arange(0, 1, 0.023)]))
    worst = 0.0
    for p in grid[grid < 1]:
        ever, _ = walk(boundaries, float(p), abandoning=False)
        certified, _ = walk(boundaries, float(p), abandoning=True)
        worst = max(worst, ever - certified)
    assert worst <= beta
    assert worst > 0.1 * beta, "the budget is there to be used"


FINE = [
    (0.0, 0.001, 0.001, 20_000, (3.4, 4.1)),
    (0.25, 0.001, 0.001, 20_000, (3.4, 4.1)),
    (2.0, 0.001, 0.1, 20_000, (3.2, 4.2)),
    (2.09, 1e-5, 0.3, 1_921, (3.5, 6.0)),
    (1.0, 1e-20, 0.001, 131_100, (9.6, 10.2)),
]
"""Settings in which the loss exceeded beta between the points of a coarser grid, and where in standard deviations."""


def worst_loss(rule: Boundaries, p0: float, between: tuple[float, float]) -> float:
    """The largest loss of certificates around the maximum of the loss, on a fine grid of p."""
    spread = np.sqrt(p0 * (1 - p0) / rule.looks[-1])
    never = Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1))
    ps = [float(p0 + t * spread) for t in np.arange(*between, 0.05)]
    return max(never.outcome(p).certify - rule.outcome(p).certify for p in ps)


@pytest.mark.parametrize(("ratio", "alpha", "beta", "budget", "between"), FINE)
def test_lost_certificates_stay_within_beta_between_the_points_of_the_grid(
    ratio: float, alpha: float, beta: float, budget: int, between: tuple[float, float]
) -> None:
    """Mutants killed: all of beta spent at the points (the first), and a grid that ends at t = 9.5 (the last)."""
    rule = Sequential(max_samples=budget, abandon="lost-certificate").boundaries(NOISE, ratio, alpha=alpha, beta=beta)
    assert 0.9 * beta < worst_loss(rule, NOISE.probability(ratio), between) <= beta


FAR = [
    (0.99269894, 7.5e-15, 0.79, 4_857, 1 - 1e-9),  # beta is so large that paths without a failure were abandoned
    (0.00024988, 1e-20, 1.5e-11, 1_499, 0.01093),  # the standard deviation at p is eight times that at p0
    (0.00732613, 1e-20, 1e-4, 1_963, 0.03347),
]
"""Settings in which the loss exceeded beta far from p0, and the p at which it did."""


@pytest.mark.parametrize(("p0", "alpha", "beta", "budget", "p"), FAR)
def test_lost_certificates_stay_within_beta_far_from_p0(
    p0: float, alpha: float, beta: float, budget: int, p: float
) -> None:
    rule = sequential.boundaries(p0, alpha=alpha, beta=beta, max_samples=budget, abandon="lost-certificate")
    never = Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1))
    assert never.outcome(p).certify - rule.outcome(p).certify <= beta
    assert (rule.abandon < rule.looks).all(), "a path without a failure goes on"


@pytest.mark.parametrize(("setting", "reserve", "reach"), [(FINE[0], 0.0, 12), (FINE[4], 0.02, 9)])
def test_without_reserve_or_reach_certificates_would_be_lost(
    setting: tuple[float, float, float, int, tuple[float, float]],
    reserve: float,
    reach: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratio, alpha, beta, budget, between = setting
    p0, looks = NOISE.probability(ratio), sequential.looks_up_to(budget)
    monkeypatch.setattr(sequential, "RESERVE", reserve)
    monkeypatch.setattr(sequential, "GRID_REACH", reach)
    certify = sequential.certify_boundary(p0, looks, alpha).counts
    mutant = sequential.abandon_boundary(p0, looks, certify, beta, "lost-certificate")
    assert worst_loss(Boundaries(np.array(looks), np.array(certify), np.array(mutant)), p0, between) > beta


def test_the_chance_to_certify_is_the_power_of_the_test_without_abandoning() -> None:
    """H computed backward and the power computed forward meet at the first look."""
    design = Sequential(max_samples=5_000).boundaries(NOISE, 1.0, alpha=0.01, beta=0.01)
    looks, certify = design.looks.tolist(), design.certify.tolist()
    for p in (0.8413447460685429, 0.85, 0.87):
        first = certify_chances(p, looks, certify)[0]
        counts = first.start + np.arange(len(first.mass))
        backward = (
            stats.binom.sf(certify[0] - 1, looks[0], p) + (stats.binom.pmf(counts, looks[0], p) * first.mass).sum()
        )
        forward, _ = walk(design, p, abandoning=False)
        assert backward == pytest.approx(forward, rel=1e-9)
