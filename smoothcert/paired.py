"""Exact statements about a paired difference: two yes-or-no answers about each of n images.

Of the n images, `gained` have a new yes in place of an old no, and `lost` a new no in place of an old yes. The
difference is delta = P(gained) - P(lost), and the rate at which the answers disagree is pi = P(gained) + P(lost).

The interval is that of Berger and Boos (1994) for an exact unconditional test. Given pi, the number D of disagreements
is binomial, and so is the number of gains among them, with probability (1 + delta / pi) / 2; so the tail of every
statistic is a sum of binomial tails. pi is unknown: an exact interval for it takes a part GAMMA of the level, and the
p-value is the largest one over that interval, plus that part. The largest is sought among RATES values and raised by
MARGIN, because it may lie between them; on grids of thousands of values it was at most .2 % larger. So the p-value is
not less than the true one, and each end of the interval is beyond delta with at most its own level. The statistic is
(gained - lost - n delta), divided by its estimated standard deviation, which makes p-values nearly the same for all pi.
Any statistic would be sound.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.errors import DomainError, require_count, require_level
from smoothcert.procedures.prediction import two_sided_p_value

Floats = npt.NDArray[np.float64]
GAMMA = 0.02
"""The part of the level that the interval for pi takes."""
RATES = 65
"""The values of pi among which the worst is sought; the tail changes slowly between them."""
MARGIN = 0.01
"""The part by which the worst is raised."""
PRECISION = 1e-6
"""How closely the ends of an interval are computed; they are rounded outwards to it."""
NEGLIGIBLE = 1e-10
"""The probability of all numbers of disagreements that a sum leaves out; it is added to the p-value."""


def mcnemar(gained: int, lost: int) -> float:
    """The exact p-value of the two-sided test that gains and losses are equally likely."""
    most = max(gained, lost)
    return 1.0 if gained == lost else two_sided_p_value(most, gained + lost)


def difference_interval(gained: int, lost: int, n: int, *, level: float) -> tuple[float, float]:
    """An interval that contains delta with probability at least 1 - level, whatever the probabilities are."""
    return -_upper(lost, gained, n, level / 2), _upper(gained, lost, n, level / 2)


@lru_cache(maxsize=1024)
def _upper(gained: int, lost: int, n: int, level: float) -> float:
    """The upper end: the delta at which so few gains, or fewer, have probability `level`."""
    _require(gained, lost, n, level)
    seen, high = (gained - lost) / n, 1.0
    low = seen
    while high - low > PRECISION:
        middle = (low + high) / 2
        if _p_value(gained, lost, n, middle, level) > level:
            low = middle
        else:
            high = middle
    return high


def _p_value(gained: int, lost: int, n: int, delta: float, level: float) -> float:
    """The largest probability, over the plausible pi, of a statistic as small as the one seen, at this delta."""
    seen, gamma = gained + lost, GAMMA * level
    rates = np.linspace(lower_bound(seen, n, gamma / 2), upper_bound(seen, n, gamma / 2), RATES)
    rates = np.unique(np.maximum(rates, abs(delta)))
    score = (gained - lost - n * delta) / _deviation(np.array([float(seen)]), n, delta)[0]
    return gamma + NEGLIGIBLE + (1 + MARGIN) * max(_tail(score, n, delta, float(rate)) for rate in rates)


def _deviation(disagreements: Floats, n: int, delta: float) -> Floats:
    """The standard deviation of gained - lost, estimated from the number of disagreements and never zero."""
    rate = np.maximum((disagreements + 1) / (n + 1), abs(delta))
    return np.asarray(np.sqrt(n * np.maximum(rate - delta**2, 1 / n)))


def _tail(score: float, n: int, delta: float, rate: float) -> float:
    """P(statistic <= score) for this delta and this rate of disagreement."""
    disagreements = _plausible(n, rate)
    weights = np.exp(
        gammaln(n + 1) - gammaln(disagreements + 1) - gammaln(n - disagreements + 1)
        + _times_log(disagreements, rate) + _times_log(n - disagreements, 1 - rate)
    )  # fmt: skip
    # gained - lost = 2 gained - D, so the statistic is at most the score for at most this many gains
    most = np.floor((disagreements + n * delta + score * _deviation(disagreements, n, delta)) / 2 + 1e-9)
    p = (1 + delta / rate) / 2 if rate else 0.5
    at_most = np.where(most < 0, 0.0, 1.0)
    inside = (most >= 0) & (most < disagreements)
    at_most[inside] = betainc(disagreements[inside] - most[inside], most[inside] + 1, 1 - min(max(p, 0.0), 1.0))
    return float(weights @ at_most)


def _plausible(n: int, rate: float) -> Floats:
    """The numbers of disagreements that are not negligible, by Bernstein's inequality."""
    log = math.log(2 / NEGLIGIBLE)
    spread = math.sqrt(2 * n * rate * (1 - rate) * log) + log
    return np.arange(max(0, math.floor(n * rate - spread)), min(n, math.ceil(n * rate + spread)) + 1, dtype=np.float64)


def _times_log(count: Floats, p: float) -> Floats:
    return count * math.log(p) if p > 0 else np.where(count > 0, -np.inf, 0.0)


def _require(gained: int, lost: int, n: int, level: float) -> None:
    require_count("n", n)
    require_count("gained", gained, least=0)
    require_count("lost", lost, least=0)
    require_level("level", level)
    if gained + lost > n:
        raise DomainError(f"gained and lost must be at most n = {n} together, got {gained} and {lost}")
