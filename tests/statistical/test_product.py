"""The bound on a difference keeps its level over all outcomes of two counts; the second depends on the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaincinv

from smoothcert import product
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.errors import DomainError
from smoothcert.procedures.transfer import MISSES, runs_jointly
from smoothcert.product import critical_product, lower_difference

ALPHA = 0.05
N = 120
P = (0.8, 0.92, 0.97)
Q = (0.0, 0.01, 0.1, 0.2)


def size(x: int) -> int:
    """A number of further samples that depends unfavourably on the first count."""
    return 300 if x % 3 == 0 else 40 + x % 7


@lru_cache
def bounds(x: int, m: int) -> tuple[float, ...]:
    return tuple(lower_difference(x, N, y, m, ALPHA) for y in range(m + 1))


def direct(x: int, m: int, p_new: float) -> float:
    """The probability that a count of the new ensemble alone claims too much."""
    counts = np.arange(m + 1)
    claims = np.array([lower_bound(int(k), m, ALPHA) for k in counts])
    return float(stats.binom.pmf(counts, m, p_new)[claims > p_new].sum())


def false_claims(p: float, q: float, joint: Callable[[int], bool]) -> float:
    """The probability of a false claim, over all outcomes of both counts."""
    total = 0.0
    for x, chance in enumerate(stats.binom.pmf(np.arange(N + 1), N, p)):
        m = size(x)
        if chance < 1e-9 or x == 0:
            continue
        if joint(x):
            wrong = np.array(bounds(x, m)) > p - q + 1e-12
            total += chance * float(stats.binom.pmf(np.arange(m + 1), m, q)[wrong].sum())
        else:
            total += chance * direct(x, m, p - q)
    return total


def most(joint: Callable[[int], bool]) -> float:
    return max(false_claims(p, q, joint) for p in P for q in Q if q <= p - 0.5)


def test_it_keeps_alpha_although_the_size_of_the_second_count_follows_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant killed: a critical product of alpha, as if one p-value had been looked at."""
    bounds.cache_clear()
    assert 0.3 * ALPHA < most(lambda x: True) <= ALPHA
    monkeypatch.setattr(product, "critical_product", lambda alpha: alpha)
    product._levels.cache_clear()
    bounds.cache_clear()
    assert most(lambda x: True) > ALPHA
    product._levels.cache_clear()
    bounds.cache_clear()


def test_it_keeps_alpha_beside_a_direct_count_where_the_misses_decide() -> None:
    """Mutant killed: the better of both levels for every first count, as if one could choose after seeing it."""
    bounds.cache_clear()
    assert most(lambda x: runs_jointly(x, N)) <= ALPHA
    assert MISSES == 10, "certificates rest on it"
    u = np.geomspace(1e-9, 1, 200_001)
    width, joint = np.diff(u, prepend=0.0), np.minimum(1.0, critical_product(ALPHA) / u)
    together = ALPHA * u + np.cumsum((joint * width)[::-1])[::-1]  # direct up to each u, and joint from there on
    assert together.max() <= ALPHA * 1.001
    assert np.maximum(joint, ALPHA) @ width > 1.2 * ALPHA


@pytest.mark.parametrize(("x", "n", "y", "m"), [(900, 1000, 0, 400), (900, 1000, 7, 400), (980, 1000, 3, 2000)])
def test_it_is_the_least_difference_of_all_pairs_that_are_believed(x: int, n: int, y: int, m: int) -> None:
    c = critical_product(ALPHA)
    p, q = np.meshgrid(np.linspace(0.8, 1, 1601), np.linspace(0, 0.1, 1601))
    believed = stats.binom.sf(x - 1, n, p) * stats.binom.cdf(y, m, q) > c
    least = float((p - q)[believed].min())
    assert lower_difference(x, n, y, m, ALPHA) == pytest.approx(least, abs=4e-4)


def test_a_second_count_without_a_loss_costs_nearly_nothing_and_less_than_a_union() -> None:
    alone = lower_bound(9_000, 10_000, 0.001)
    union = lower_bound(9_000, 10_000, 0.0005) - upper_bound(0, 2_000, 0.0005)
    found = lower_difference(9_000, 10_000, 0, 2_000, 0.001)
    assert union < found < alone
    assert alone - found < (alone - union) / 2
    assert found == pytest.approx(float(betaincinv(9_000, 1_001, critical_product(0.001))), abs=2e-5), (
        "the steps cost little"
    )


def test_it_falls_with_each_loss_and_never_below_zero() -> None:
    found = [lower_difference(95, 100, y, 50, 0.01) for y in range(51)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0.0
    assert lower_difference(95, 100, 1.5, 50, 0.01) == pytest.approx(np.mean(found[1:3]), abs=0.01)


def test_the_product_of_two_p_values_is_critical_with_probability_alpha() -> None:
    for alpha in (1e-9, 0.001, 0.5, 0.999):
        c = critical_product(alpha)
        assert c * (1 + math.log(1 / c)) == pytest.approx(alpha)
    with pytest.raises(DomainError, match="alpha"):
        critical_product(0.0)
