"""A lower bound on the difference of two probabilities that are counted one after the other.

x of n samples have p, and later y of m samples have q. Their p-values are u = P(X >= x | p) and v = P(Y <= y | q). For
the true p and q, u v <= c with probability at most c (1 + ln(1 / c)) (Fisher). This holds also if m was chosen after x
was seen, because v is a p-value given x (Bauer and Köhne, Biometrics 1994). Set c (1 + ln(1 / c)) = alpha: then with
probability at least 1 - alpha, p - q is at least its least value among all pairs with u v > c,

    min over u in [c, 1] of lower_bound(x, n, u) - upper_bound(y, m, c / u).

Two bounds at alpha / 2 hold together as well (union), but each of them pays for the bad luck of both. If y = 0 and m is
not small, this one is nearly the bound on p alone.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, lambertw

from smoothcert.bounds import ALMOST_ONE
from smoothcert.errors import require_level

STEPS = 512
"""The intervals of u in which the minimum is sought; their width changes a level by less than 2 %, for alpha = .001."""


def lower_difference(x: float, n: int, y: float, m: int, alpha: float, *, steps: int = STEPS) -> float:
    """The bound on p - q, at least 0, which holds with probability at least 1 - alpha.

    0 < x <= n and 0 <= y <= m, n and m >= 1. Plans may have counts that are not whole, whose bound is between those of
    their neighbours, and fewer steps, which are faster and give a little less.
    """
    u, v = _levels(alpha, steps)
    # Within each interval of u, p is at least its bound at the lower end, and q at most its bound at the upper one.
    p = np.minimum(betaincinv(x, n - x + 1, u[:-1]), ALMOST_ONE)
    q = 1.0 - betaincinv(m - y, y + 1, v[1:]) if y < m else 1.0
    return max(0.0, float(np.min(p - q)))


def critical_product(alpha: float) -> float:
    """The c with c (1 + ln(1 / c)) = alpha."""
    require_level("alpha", alpha)
    return -alpha / float(lambertw(-alpha / math.e, -1).real)


@lru_cache(maxsize=16)
def _levels(alpha: float, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of the intervals of u, from c to 1, and c / u for each."""
    c = critical_product(alpha)
    u = np.geomspace(c, 1.0, steps + 1)
    return u, np.minimum(c / u, 1.0)
