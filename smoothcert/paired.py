"""Exact statements about a paired difference: two yes-or-no answers about each of n images.

Of the n images, `gained` have a new yes in place of an old no, and `lost` a new no in place of an old yes. The
difference is delta = P(gained) - P(lost), and the rate at which the answers disagree is pi = P(gained) + P(lost).

Each end of the interval is Buehler's bound (1957) for an order of the outcomes. Outcomes are ordered by an approximate
upper limit of delta, that of Wilson: the larger root of (gained - lost - n delta)^2 = z^2 n (rate - delta^2), where the
rate is that of the disagreements and z the quantile of the level. Any order would be sound; this one makes the bound
use nearly the same part of its level for all pi. The bound is the largest delta at which the outcomes up to the one
that was seen have more than the level.

Given pi, the number D of disagreements is binomial, and so is the number of gains among them, with probability
(1 + delta / pi) / 2; so the probability of those outcomes is a sum of binomial tails. pi is unknown: an exact interval
for it takes a part GAMMA of the level, and the largest probability over that interval counts (Berger and Boos, 1994).
It is sought among RATES values and raised by MARGIN, because it may lie between them; on grids of thousands of values
it was at most .4 % larger.

For each number of disagreements, the outcomes are those with few gains, whatever delta is. So their probability falls
with delta for each pi, and halving finds the bound. It would not if the order depended on delta, as that by a
standardised statistic does.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, ndtri

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
    most_gains = _most_gains(gained, lost, n, level)
    low, high = (gained - lost) / n, 1.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        if _p_value(gained + lost, n, middle, level, most_gains) > level:
            low = middle
        else:
            high = middle
    return high


def _most_gains(gained: int, lost: int, n: int, level: float) -> Floats:
    """For each number of disagreements from 0 to n, the most gains that do not come after this outcome; -1 if all do.

    The larger root is (t + z sqrt(spread - t^2 / n)) / (n + z^2), where t = gained - lost and spread = rate (n + z^2).
    It rises with t, and does not exceed that of the outcome for all t up to the smaller root of the equation in t.
    """
    z = -float(ndtri(level))
    disagreements = np.arange(n + 1, dtype=np.float64)
    spread = (disagreements + 1) / (n + 1) * (n + z**2)
    seen = gained - lost
    limit = seen + z * math.sqrt(spread[gained + lost] - seen**2 / n)
    square = spread * (1 + z**2 / n) - limit**2 / n
    most = np.where(square < 0, limit, (limit - z * np.sqrt(np.maximum(square, 0))) / (1 + z**2 / n))
    return np.clip(np.floor((disagreements + most) / 2 + 1e-9), -1, disagreements)


def _p_value(seen: int, n: int, delta: float, level: float, most_gains: Floats) -> float:
    """The largest probability of so few gains for this delta or a larger one, over the plausible pi.

    pi is at least delta. Where it is less than -delta, the smallest difference that is possible is -pi.
    """
    gamma = GAMMA * level
    least, most = (max(bound(seen, n, gamma / 2), delta) for bound in (lower_bound, upper_bound))
    rates = {*np.linspace(least, most, RATES).tolist(), min(max(-delta, least), most)}
    return gamma + NEGLIGIBLE + (1 + MARGIN) * max(_tail(most_gains, n, delta, rate) for rate in rates)


def _tail(most_gains: Floats, n: int, delta: float, rate: float) -> float:
    """P(gained <= most_gains[D]) for this delta and this rate of disagreement."""
    disagreements = _plausible(n, rate)
    weights = np.exp(
        gammaln(n + 1) - gammaln(disagreements + 1) - gammaln(n - disagreements + 1)
        + _times_log(disagreements, rate) + _times_log(n - disagreements, 1 - rate)
    )  # fmt: skip
    most = most_gains[disagreements.astype(np.int64)]
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
