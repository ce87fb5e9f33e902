"""Exact arithmetic on the running count of successes: sub-distributions that are convolved and cut.

The error probability of a certificate lies in the far tails. Two choices keep them accurate: convolution is direct,
since the absolute error of an FFT would swamp them, and tails are summed from their small end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
import numpy.typing as npt

from smoothcert.memo import memo

Mass = npt.NDArray[np.float64]

CUT = 14.0
"""The standard deviations of a binomial that are kept on each side of its mean; the rest weighs less than 1e-40."""
SPARE = 60
"""The entries that are kept beyond CUT: where the mean is small, the tail is that of a Poisson, not of a Gaussian."""
DUST = 1e-30
"""The weight below which entries at the ends are dropped: far less than any budget, since alpha >= 1e-20."""
LOW_DUST = 1e-45
"""The weight below which entries at the low end are dropped where every rounding counts: all of them together weigh
less than 1e-38, and the slack of the least alpha is 1e-29."""
KEPT_BYTES = 32 * 2**20
"""The bytes of binomial distributions that are kept: those of a test of a million samples at every p of its grid."""


@dataclass(frozen=True)
class Counts:
    """The probability `mass[i]` that the count is `start + i`, over the paths that are still followed."""

    start: int
    mass: Mass

    @property
    def total(self) -> float:
        """The probability of all paths that are still followed."""
        return float(np.sort(self.mass).sum())

    def plus(self, n: int, p: float) -> Counts:
        """The distribution after n further samples that succeed with probability p."""
        step = binomial(n, p)
        if not len(self.mass):
            return self
        return Counts(self.start + step.start, np.convolve(self.mass, step.mass))

    def below(self, u: int) -> Counts:
        """The distribution without the paths that have a count of u or more."""
        return Counts(self.start, self.mass[: max(0, u - self.start)])

    def above(self, low: int) -> Counts:
        """The distribution without the paths that have a count of low or less."""
        cut = max(0, low + 1 - self.start)
        return Counts(self.start + min(cut, len(self.mass)), self.mass[cut:])

    def without_dust(self) -> Counts:
        """The distribution without the ends whose entries are at most DUST. They cost time and change nothing."""
        heavy = np.flatnonzero(self.mass > DUST)
        if not len(heavy):
            return Counts(self.start, self.mass[:0])
        return Counts(self.start + int(heavy[0]), self.mass[heavy[0] : heavy[-1] + 1])

    def without_low_dust(self) -> Counts:
        """The distribution without the low end whose entries are at most LOW_DUST.

        Without this, the counts that are followed would reach ever more standard deviations below the mean.
        """
        heavy = np.flatnonzero(self.mass > LOW_DUST)
        cut = int(heavy[0]) if len(heavy) else len(self.mass)
        return Counts(self.start + cut, self.mass[cut:])

    def upper_tail(self, u: int) -> float:
        """P(count >= u)."""
        return float(self.mass[max(0, u - self.start) :][::-1].sum()) if u < self.start + len(self.mass) else 0.0

    def lower_tail(self, low: int) -> float:
        """P(count <= low)."""
        return float(self.mass[: max(0, low + 1 - self.start)].sum())

    def least_upper(self, budget: float) -> int:
        """The least u with P(count >= u) <= budget."""
        # Let `last` be the largest count. tails[i] = P(count >= last - i), summed from the small end, never falls. If
        # the first m tails keep the budget, u = last - (m - 1) is the least count that does; m = 0 gives last + 1.
        tails = np.cumsum(self.mass[::-1])
        return self.start + len(self.mass) - int(np.searchsorted(tails, budget, side="right"))

    def greatest_lower(self, budget: float) -> int:
        """The greatest l with P(count <= l) <= budget."""
        # tails[i] = P(count <= start + i). If the first m keep the budget, l = start + m - 1; m = 0 gives start - 1.
        tails = np.cumsum(self.mass)
        return self.start - 1 + int(np.searchsorted(tails, budget, side="right"))


NOTHING_DRAWN = Counts(0, np.ones(1))
"""The distribution before the first sample: the count is 0."""


def counts_kept(n: int, p: float) -> tuple[int, int]:
    """The least and the largest count of `binomial(n, p)`."""
    mean, spread = n * p, CUT * sqrt(n * p * (1.0 - p)) + SPARE
    return max(0, floor(mean - spread)), min(n, ceil(mean + spread))


@memo(KEPT_BYTES, lambda counts: counts.mass.nbytes)
def binomial(n: int, p: float) -> Counts:
    """Binomial(n, p) without tails that weigh less than 1e-40, normalised.

    It is built from the mode outwards by the ratio of neighbours. So the relative error of each entry is a few hundred
    ulps, while logarithms of factorials would lose seven digits at n = 131,100.
    """
    q = 1.0 - p  # exact for p >= 1/2
    if q == 0.0 or p == 0.0:
        return Counts(n if q == 0.0 else 0, np.ones(1))
    # 1. The counts first, ..., last that are kept, and the mode among them.
    first, last = counts_kept(n, p)
    mode = min(max(first, floor((n + 1) * p)), last)
    # 2. The mass relative to the mode. Upwards, P(k + 1) / P(k) = (n - k) p / ((k + 1) q) for k from the mode to
    #    last - 1; downwards, P(k - 1) / P(k) = k q / ((n - k + 1) p) for k from the mode to first + 1.
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    mass = np.concatenate(
        [
            np.cumprod(down * q / ((n - down + 1) * p))[::-1],
            [1.0],
            np.cumprod((n - up) * p / ((up + 1) * q)),
        ]
    )
    # 3. Divide by the sum, with the small terms first.
    mass /= np.sort(mass).sum()
    mass.flags.writeable = False
    return Counts(first, mass)
