"""One-sided Clopper–Pearson bounds on a probability.

Each bound is one-sided: it fails with probability at most its own alpha (or beta). A two-sided interval at the same
level would be wider than necessary; calling a two-sided function with alpha instead of 2 * alpha is a common mistake.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from smoothcert.errors import DomainError, require_count, require_level, require_probability

ALMOST_ONE = math.nextafter(1.0, 0.0)
"""The largest lower bound: no number of samples shows that p is one, even where the bound rounds to it."""


def lower_bound(count: int, n: int, alpha: float) -> float:
    """The p_lower with P(p >= p_lower) >= 1 - alpha, for `count` successes among n >= 1 samples."""
    _require_counts(count, n)
    require_level("alpha", alpha)
    return 0.0 if count == 0 else min(float(betaincinv(count, n - count + 1, alpha)), ALMOST_ONE)


def unanimous_bound(n: int, alpha: float) -> float:
    """`lower_bound` if all of n samples are successes, for an alpha that may be a share of the smallest level."""
    ((low, _),) = intervals((n,), (n,), alpha)
    return low


def upper_bound(count: int, n: int, beta: float) -> float:
    """The p_upper with P(p <= p_upper) >= 1 - beta, for `count` successes among n >= 1 samples."""
    _require_counts(count, n)
    require_level("beta", beta)
    # By symmetry, this is one minus the lower bound on failures, which keeps its digits if p_upper is close to one.
    return 1.0 if count == n else 1.0 - float(betaincinv(n - count, count + 1, beta))


@lru_cache(maxsize=256)
def intervals(counts: tuple[int, ...], sizes: tuple[int, ...], alpha: float) -> tuple[tuple[float, float], ...]:
    """`lower_bound` and `upper_bound` at level alpha for each count among its size, computed together.

    alpha is the share of one look and may be smaller than the smallest level of a procedure. Results are kept, since
    the looks of an image under way are shown many times before the next one is taken.
    """
    for each, size in zip(counts, sizes, strict=True):
        _require_counts(each, size)
    require_probability("alpha", alpha)
    count, n = np.array(counts, dtype=float), np.array(sizes, dtype=float)
    # betaincinv is not defined for a first argument of 0, where the bound is known: the clipped value is not used
    low = np.where(count == 0, 0.0, np.minimum(betaincinv(np.maximum(count, 1), n - count + 1, alpha), ALMOST_ONE))
    high = np.where(count == n, 1.0, 1.0 - betaincinv(np.maximum(n - count, 1), count + 1, alpha))
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def _require_counts(count: int, n: int) -> None:
    require_count("n", n)
    require_count("count", count, least=0)
    if count > n:
        raise DomainError(f"count must be at most n = {n}, got {count!r}")


def fewest_to_prove(p0: float, alpha: float) -> int | None:
    """The least n with alpha^(1/n) >= p0; None for p0 = 1. Fewer samples do not prove p0 even if all of them agree."""
    if p0 >= 1.0:
        return None
    return max(1, math.ceil(math.log(alpha) / math.log(p0)))
