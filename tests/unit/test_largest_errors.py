"""How often `largest` claims too much at its defaults, and how often each mutant of its rule does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from smoothcert.bounds import lower_bound
from smoothcert.largest import Thresholds, thresholds
from smoothcert.noise import Gaussian

ALPHA = 0.001

Ending = Callable[[Thresholds, int, np.ndarray], np.ndarray]
"""A function of the rule, the number of a look and counts: whether the run ends there, for each count."""


def make(sigma: float) -> Thresholds:
    return thresholds(Gaussian(sigma), alpha=ALPHA, beta=0.001, price=3_000_000, max_samples=100_000)


def on_bad_news(rule: Thresholds, j: int, k: np.ndarray) -> np.ndarray:
    return k <= rule.ends[j]


def false_claims(rule: Thresholds, p: float, ending: Ending = on_bad_news) -> float:
    """P(p_lower > p), by a recursion over the counts that have a chance of more than 1e-20."""
    mass, lowest, false = np.ones(1), 0, 0.0
    for j, (n, step) in enumerate(zip(rule.looks.tolist(), rule.steps.tolist(), strict=True)):
        first, last = int(stats.binom.ppf(1e-18, step, p)), int(stats.binom.isf(1e-18, step, p))
        mass, lowest = np.convolve(mass, stats.binom.pmf(np.arange(first, last + 1), step, p)), lowest + first
        k = lowest + np.arange(len(mass))
        ends = np.full(len(k), n == rule.looks[-1]) | ending(rule, j, k)
        overclaims = k > stats.binom.isf(ALPHA, n, p)  # counts that so few runs reach have a bound above p
        false += mass[ends & overclaims].sum()
        mass = np.where(ends | (k <= rule.abandon[j]), 0.0, mass)
        if not (left := np.flatnonzero(mass > 1e-20)).size:
            break
        mass, lowest = mass[left[0] : left[-1] + 1], int(k[left[0]])
    return float(false)


@pytest.mark.parametrize(
    ("sigma", "errors"),
    [
        (0.25, (0, 0.000944517, 0.00096031, 0.000995459, 0.000921409, 0.000912438, 0.000587359, 0.000499195, 0)),
        (1.0, (0, 0.000967675, 0.000997624, 0.00097253, 0.000950127, 0.000962738, 0.000966793, 0.000499195, 0)),
    ],
)
def test_claims_are_false_as_often_as_the_golden_table_says(sigma: float, errors: tuple[float, ...]) -> None:
    found = [false_claims(make(sigma), p) for p in (0.4, 0.5, 0.53, 0.7, 0.9, 0.9772, 0.999, 0.9999, 1)]
    assert found == pytest.approx(errors, rel=2e-6, abs=1e-15)


@cache
def least_proving(bound: float, n: int) -> int:
    """The least count that proves a probability; n + 1 if none does."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if lower_bound(middle, n, ALPHA) >= bound else (middle + 1, high)
    return low


def leaving_a_hole(rule: Thresholds, j: int, k: np.ndarray) -> np.ndarray:
    """The mutant goes on if p_lower is at most 1/2."""
    return (k <= rule.ends[j]) & (k >= rule.proving[j])


def also_on_good_news(rule: Thresholds, j: int, k: np.ndarray) -> np.ndarray:
    """The mutant also ends if p_lower is .9 or more."""
    return (k <= rule.ends[j]) | (k >= least_proving(0.9, int(rule.looks[j])))


def from_the_threshold_on(rule: Thresholds, j: int, k: np.ndarray) -> np.ndarray:
    """The mutant ends at the threshold or above it instead of below."""
    return (k >= rule.ends[j]) & (rule.ends[j] >= 0)


@pytest.mark.parametrize(
    ("mutant", "p", "error", "digits"),
    [
        (leaving_a_hole, 0.5, 0.00686, 5e-6),
        (also_on_good_news, 0.9005, 0.0108, 5e-5),
        (from_the_threshold_on, 0.756, 0.0019, 1e-4),
    ],
)
def test_each_mutant_overclaims_as_often_as_the_design_says(
    mutant: Ending, p: float, error: float, digits: float
) -> None:
    rule = make(0.25)
    assert false_claims(rule, p) <= ALPHA
    assert false_claims(rule, p, mutant) == pytest.approx(error, abs=digits)


def test_a_class_chosen_on_the_counted_samples_would_be_claimed_twice_as_often() -> None:
    """The mutant has two classes of one half, and claims the one with more samples at the end."""
    assert 2 * false_claims(make(0.25), 0.5) == pytest.approx(0.00189, abs=5e-6)


@pytest.mark.parametrize(("sigma", "worthwhile"), [(0.25, 0.5205), (0.5, 0.5163), (1.0, 0.5129)])
def test_an_image_that_is_worth_its_samples_is_hardly_ever_abandoned(sigma: float, worthwhile: float) -> None:
    assert make(sigma).outcome(worthwhile).abandon == pytest.approx(2e-4, abs=5e-5)
