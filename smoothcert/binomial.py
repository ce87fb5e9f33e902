"""Exact arithmetic on the running count of successes: sub-distributions that are convolved and cut.

Two choices keep the far tails true, where a certificate's error probability lives: convolution is direct (the absolute
error of an FFT would swamp them), and tails are added from their small end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, sqrt

import numpy as np
import numpy.typing as npt

Mass = npt.NDArray[np.float64]

CUT = 14.0  # standard deviations kept on each side of the mean; what lies beyond weighs less than 1e-40
DUST = 1e-30
SPARE = 60  # further entries kept: where the mean is small the tail is Poisson's, not Gauss's


@dataclass(frozen=True)
class Counts:
    """The probability `mass[i]` that the count is `start + i`, over the paths that are still followed."""

    start: int
    mass: Mass

    @property
    def total(self) -> float:
        """The probability of all paths still followed."""
        return float(np.sort(self.mass).sum())

    def plus(self, n: int, p: float) -> Counts:
        """After n further samples that succeed with probability p."""
        step = binomial(n, p)
        if not len(self.mass):
            return self
        return Counts(self.start + step.start, np.convolve(self.mass, step.mass))

    def below(self, u: int) -> Counts:
        """Only the paths with a count < u."""
        return Counts(self.start, self.mass[: max(0, u - self.start)])

    def above(self, low: int) -> Counts:
        """Only the paths with a count > low."""
        cut = max(0, low + 1 - self.start)
        return Counts(self.start + min(cut, len(self.mass)), self.mass[cut:])

    def without_dust(self) -> Counts:
        """Without the ends that weigh far less than anything ever compared: they cost time and change nothing."""
        heavy = np.flatnonzero(self.mass > DUST)
        if not len(heavy):
            return Counts(self.start, self.mass[:0])
        return Counts(self.start + int(heavy[0]), self.mass[heavy[0] : heavy[-1] + 1])

    def upper_tail(self, u: int) -> float:
        """P(count >= u)."""
        return float(self.mass[max(0, u - self.start) :][::-1].sum()) if u < self.start + len(self.mass) else 0.0

    def lower_tail(self, low: int) -> float:
        """P(count <= low)."""
        return float(self.mass[: max(0, low + 1 - self.start)].sum())

    def least_upper(self, budget: float) -> int:
        """The least u with P(count >= u) <= budget."""
        tails = np.cumsum(self.mass[::-1])  # tails[i] = P(count >= end - i), small terms first
        return self.start + len(self.mass) - int(np.searchsorted(tails, budget, side="right"))

    def greatest_lower(self, budget: float) -> int:
        """The greatest l with P(count <= l) <= budget."""
        return self.start - 1 + int(np.searchsorted(np.cumsum(self.mass), budget, side="right"))


NOTHING_DRAWN = Counts(0, np.ones(1))


@lru_cache(maxsize=4096)
def binomial(n: int, p: float) -> Counts:
    """Binomial(n, p), cut where less than 1e-40 is lost, adding to one.

    Built from the mode outwards by the ratio of neighbours: each entry's relative error is a few hundred ulps, where
    the logarithm of a factorial would lose seven digits at n = 131,100.
    """
    q = 1.0 - p  # exact for p >= 1/2
    if q == 0.0 or p == 0.0:
        return Counts(n if q == 0.0 else 0, np.ones(1))
    mean, spread = n * p, CUT * sqrt(n * p * q) + SPARE
    first, last = max(0, floor(mean - spread)), min(n, ceil(mean + spread))
    mode = min(max(first, floor((n + 1) * p)), last)
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    mass = np.concatenate(
        [
            np.cumprod(down * q / ((n - down + 1) * p))[::-1],
            [1.0],
            np.cumprod((n - up) * p / ((up + 1) * q)),
        ]
    )
    mass /= np.sort(mass).sum()
    mass.flags.writeable = False
    return Counts(first, mass)
