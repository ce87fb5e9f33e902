"""The exact arithmetic under the sequential test, against scipy's distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.binomial import NOTHING_DRAWN, binomial


@pytest.mark.parametrize("n", [1, 32, 1_000, 131_100])
@pytest.mark.parametrize("p", [0.001, 0.4, 0.5, 0.8413447, 0.99865, 0.99995, 1 - 1e-9])
def test_the_kernel_is_the_binomial_distribution(n: int, p: float) -> None:
    kernel = binomial(n, p)
    ks = kernel.start + np.arange(len(kernel.mass))
    expected = stats.binom.pmf(ks, n, p)
    heavy = expected > 1e-60
    assert np.allclose(kernel.mass[heavy], expected[heavy], rtol=1e-9, atol=0)
    left_out = stats.binom.cdf(kernel.start - 1, n, p) + stats.binom.sf(kernel.start + len(ks) - 1, n, p)
    assert left_out < 1e-40


@pytest.mark.parametrize(("p", "count"), [(0.0, 0), (1.0, 7)])
def test_a_certain_outcome_has_all_the_mass(p: float, count: int) -> None:
    kernel = binomial(7, p)
    assert (kernel.start, kernel.mass.tolist()) == (count, [1.0])


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0.01, 0.99))
def test_two_steps_make_the_distribution_of_one_long_step(a: int, b: int, p: float) -> None:
    both, once = NOTHING_DRAWN.plus(a, p).plus(b, p), binomial(a + b, p)
    at = once.start - both.start
    assert np.allclose(both.mass[at : at + len(once.mass)], once.mass, rtol=1e-9, atol=1e-40)


@given(st.integers(1, 2000), st.floats(0.01, 0.99), st.floats(1e-30, 0.9))
def test_the_boundaries_are_the_outermost_that_keep_the_budget(n: int, p: float, budget: float) -> None:
    counts = binomial(n, p)
    u, low = counts.least_upper(budget), counts.greatest_lower(budget)
    assert counts.upper_tail(u) <= budget * (1 + 1e-12)
    assert counts.upper_tail(u - 1) > budget * (1 - 1e-12)
    assert counts.lower_tail(low) <= budget * (1 + 1e-12)
    assert counts.lower_tail(low + 1) > budget * (1 - 1e-12)


@given(st.integers(1, 500), st.floats(0.05, 0.95), st.integers(-5, 505))
def test_cutting_splits_the_mass(n: int, p: float, cut: int) -> None:
    counts = binomial(n, p)
    assert counts.below(cut).total + counts.upper_tail(cut) == pytest.approx(1)
    assert counts.above(cut).total + counts.lower_tail(cut) == pytest.approx(1)
    assert counts.above(cut).above(cut).total == counts.above(cut).total
