"""Clopper–Pearson bounds against published numbers, against their definition, and at the edges of their domain."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.bounds import intervals, lower_bound, upper_bound
from smoothcert.errors import DomainError

levels = st.floats(1e-6, 0.5)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 200_000))
    return draw(st.integers(0, n)), n


@pytest.mark.parametrize(
    ("count", "n", "lower", "upper"),
    [
        (990, 1000, 0.976036187, 0.997030499),
        (99, 100, 0.911373111, 0.999989995),
        (50_000, 100_000, 0.495109043, 0.504890957),
        (100_000, 100_000, 0.999930925, 1.0),
        (0, 100, 0.0, 0.066745699),
    ],
)
def test_the_bounds_have_their_golden_values(count: int, n: int, lower: float, upper: float) -> None:
    assert lower_bound(count, n, 0.001) == pytest.approx(lower, abs=5e-10)
    assert upper_bound(count, n, 0.001) == pytest.approx(upper, abs=5e-10)


@given(counts(), levels)
def test_the_lower_bound_is_where_the_count_becomes_improbable(pair: tuple[int, int], alpha: float) -> None:
    """The definition, computed by the binomial tail instead of the beta quantile.

    Mutant killed: a two-sided bound (alpha / 2) leaves half the tail.
    """
    count, n = pair
    p = lower_bound(count, n, alpha)
    if count > 0 and p > 1e-12:
        assert stats.binom.sf(count - 1, n, p) == pytest.approx(alpha, rel=1e-5)


@given(counts(), levels)
def test_the_upper_bound_mirrors_the_lower_one(pair: tuple[int, int], alpha: float) -> None:
    count, n = pair
    assert upper_bound(count, n, alpha) == pytest.approx(1 - lower_bound(n - count, n, alpha), abs=1e-12)
    assert lower_bound(count, n, alpha) <= count / n <= upper_bound(count, n, alpha)


@given(counts(), levels)
def test_bounds_rise_with_the_count_and_the_error_allowed(pair: tuple[int, int], alpha: float) -> None:
    count, n = pair
    if count < n:
        assert lower_bound(count, n, alpha) < lower_bound(count + 1, n, alpha)
        assert upper_bound(count, n, alpha) <= upper_bound(count + 1, n, alpha)
    assert lower_bound(count, n, alpha) <= lower_bound(count, n, min(0.9, 2 * alpha))


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(2, 20), levels)
def test_more_samples_at_the_same_rate_never_lower_the_bound(n: int, count: int, times: int, alpha: float) -> None:
    count = min(count, n)
    # This holds where the bound stays below the rate, that is, for alpha up to one half.
    assert lower_bound(times * count, times * n, alpha) >= lower_bound(count, n, alpha) - 1e-12


@given(st.integers(1, 2**53 - 1), st.integers(0, 2**53 - 1), st.floats(1e-20, 0.999))
def test_no_nan_and_no_certainty_ever_leaves_a_bound(n: int, count: int, level: float) -> None:
    count = min(count, n)
    assert 0.0 <= lower_bound(count, n, level) < 1.0
    assert 0.0 < upper_bound(count, n, level) <= 1.0


@pytest.mark.parametrize("bound", [lower_bound, upper_bound])
@pytest.mark.parametrize(
    ("count", "n", "level", "seen"),
    [
        (11, 10, 0.001, "11"),
        (-1, 10, 0.001, "-1"),
        (0, 0, 0.001, "0"),
        (5, 10, 0.0, "0.0"),
        (5, 10, 1.0, "1.0"),
        (5, 10, -0.1, "-0.1"),
        (5, 10, math.nan, "nan"),
        (math.nan, 10, 0.001, "nan"),
        (5, math.nan, 0.001, "nan"),
        (5.0, 10, 0.001, "5.0"),
        (True, 10, 0.001, "True"),
        (3, 7, 1e-200, "1e-200"),
        (5, 10, None, "None"),
        (5, 10, "0.1", "'0.1'"),
        (5, 2**62, 0.001, str(2**62)),
    ],
)
def test_arguments_outside_the_domain_are_named(bound, count, n, level, seen) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DomainError, match=seen):
        bound(count, n, level)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1)), max_size=20), st.sampled_from([0.5, 0.001, 1e-15]))
def test_intervals_are_both_bounds_of_each_count(looks: list[tuple[int, float]], alpha: float) -> None:
    sizes = tuple(n for n, _ in looks)
    counts = tuple(round(share * n) for n, share in looks)
    bounds = [
        (lower_bound(count, n, alpha), upper_bound(count, n, alpha)) for count, n in zip(counts, sizes, strict=True)
    ]
    assert list(intervals(counts, sizes, alpha)) == bounds


def test_intervals_refuse_what_the_bounds_refuse() -> None:
    with pytest.raises(DomainError, match="at most n = 5, got 6"):
        intervals((1, 6), (5, 5), 0.001)
    with pytest.raises(DomainError, match="alpha"):
        intervals((1,), (5,), 0.0)
    assert intervals((5,), (5,), 1e-22)[0][0] > 0, "the share of one look may be smaller than any alpha"
