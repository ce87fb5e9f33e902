"""Noise that replaces values by others, with radii in the l0 norm (Lee et al., 2019).

Each value of an image, rounded to one of `levels` levels 0, ..., K, keeps its level with probability `keep` and takes
each of the K other levels with probability (1 - keep) / K. If x and x' differ in r values, the likelihood ratio depends
on those r values alone, so the certificate does not depend on the size of the image. The thresholds of p_A are rational
numbers and are computed exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from smoothcert.errors import DomainError, require_count
from smoothcert.noise.grid import LookUp
from smoothcert.noise.noise import Noise, Source, require_probability_bound
from smoothcert.noise.uniform import fair_die

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_LEVELS = 256
MOST_RADIUS = 100
"""The largest radius of the table, which takes 40 ms at worst; mostly thresholds round to 1 long before it."""
DECIMALS = 3
"""`keep` is a decimal number of at most this many places, so that the law of the noise is a small exact fraction."""
KEPT = -1
"""Stands for "the value keeps its own level" among drawn levels."""


@dataclass(frozen=True)
class Replacement(Noise):
    """Levels are replaced at random; a radius is the number of values that may change, to anything at all.

    An image of any values is rounded to the nearest levels first. That maps single values, so it cannot raise the
    number of values in which two images differ: the claim holds for every x', on the levels or not.
    """

    keep: Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)]
    """The probability that a value keeps its level."""
    levels: Annotated[int, Field(strict=True, ge=2, le=MOST_LEVELS)]
    """The number of levels: 2 for black and white, 256 for bytes."""
    name: Literal["replacement"] = field(default="replacement", kw_only=True)
    norm: Literal["l0"] = field(default="l0", kw_only=True)

    whole: ClassVar[bool] = True
    closed: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    scheme: ClassVar[str] = "philox-62-replacement"

    def __post_init__(self) -> None:
        self._keep_number("keep")
        require_count("levels", self.levels, least=2, most=MOST_LEVELS)
        if not 1 / self.levels < self.keep < 1:
            raise DomainError(f"keep must lie strictly between 1/levels = {1 / self.levels:g} and 1, got {self.keep!r}")
        exponent = Decimal(repr(self.keep)).normalize().as_tuple().exponent
        if not isinstance(exponent, int) or exponent < -DECIMALS:
            raise DomainError(f"keep must have at most {DECIMALS} decimals, got {self.keep!r}")

    @property
    def label(self) -> str:
        return f"replacement, keep {self.keep:g}, levels {self.levels}"

    def radius(self, p_lower: float) -> float:
        """The largest whole r that p_A >= p_lower proves; -1 where p_lower <= 1/2, infinite at 1."""
        require_probability_bound(p_lower)
        return inf if p_lower == 1.0 else bisect_right(thresholds(self.keep, self.levels), p_lower) - 1

    def probability(self, radius: float) -> float:
        """The least double above the threshold of this radius; 1 where none below one is."""
        self.require_radius(radius)
        table = thresholds(self.keep, self.levels)
        return table[int(radius)] if radius < len(table) else 1.0

    def settle(self, pixels: Tensor) -> Tensor:
        """The nearest levels, int16."""
        return pixels.mul(self.levels - 1).add_(0.5).floor_().short()

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        """The new level of each value, or KEPT: a fair die of M = K * denominator sides decides exactly."""
        return source.place(self._levels(fair_die(source, block, shape, self._sides)))

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        greys(self.levels).write(out, settled.where(drawn == KEPT, drawn))

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A value is drawn anew from all levels with probability (1 - keep) levels / K, and may hit its own again."""
        highest = self.levels - 1
        anew = (1 - self.keep) * self.levels / highest
        own = images.mul(highest).add_(0.5).floor_()
        other = (
            images.new_empty(images.shape).uniform_(0, self.levels, generator=generator).floor_().clamp_(max=highest)
        )
        replaced = images.new_empty(images.shape).uniform_(generator=generator) < anew
        return other.where(replaced, own).div_(highest)

    @property
    def _fraction(self) -> Fraction:
        return Fraction(repr(self.keep))

    @property
    def _sides(self) -> int:
        return (self.levels - 1) * self._fraction.denominator

    def _levels(self, side: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Sides below `kept` keep the own level; the others are shared by all levels, the own one included."""
        # keep = numerator / denominator, so K * numerator of the K * denominator sides must give the own level, and
        # each of the K others gets denominator - numerator. If all levels share alike, the own one gets that many as
        # well; the rest of its sides are the first `kept` ones: K * numerator - (denominator - numerator).
        numerator, denominator = self._fraction.numerator, self._fraction.denominator
        kept = self.levels * numerator - denominator
        return np.where(side < kept, KEPT, (side - kept) // (denominator - numerator)).astype(np.int16)


@lru_cache(maxsize=8)
def greys(levels: int) -> LookUp:
    """level / K as float32: one number for each level, so nothing leaks through rounding."""
    return LookUp((np.arange(levels) / np.float64(levels - 1)).astype(np.float32))


@lru_cache(maxsize=16)
def thresholds(keep: float, levels: int) -> tuple[float, ...]:
    """For r = 0, 1, ...: the least double above tau_r, up to MOST_RADIUS or the last that is below one.

    p_A > tau_r proves the radius r. At p_A = tau_r the worst classifier has a tie at x', so equality does not suffice.
    """
    table: list[float] = []
    for tau in exact_thresholds(keep, levels, MOST_RADIUS):
        least = _least_above(tau)
        if least >= 1.0:
            break
        table.append(least)
    return tuple(table)


def exact_thresholds(keep: float, levels: int, most: int) -> list[Fraction]:
    """tau_r for r = 0, ..., most, as rational numbers; ends early once tau_r is 1 as a double.

    In each of the r values where x and x' differ, z_i is x_i (weight A under x, B under x'), x'_i (B, A), or one of K -
    1 others (B each, C together). S = #(z_i = x_i) - #(z_i = x'_i) is sufficient, its likelihood ratio is (A / B)^S,
    and the worst classifier (Neyman-Pearson) accepts the largest S first, until its probability under x' is 1/2.
    """
    fraction, k = Fraction(repr(keep)), levels - 1
    a, b = k * fraction.numerator, fraction.denominator - fraction.numerator
    c = (k - 1) * b
    total = a + b + c
    weights, found = [1], []  # weights[s + r] is W_r[s], the weight of S = s under x
    for r in range(most + 1):
        found.append(_threshold(weights, r, a, b, total**r))
        if float(found[-1]) >= 1.0:
            break
        # W_{r+1}[s] = A W_r[s - 1] + C W_r[s] + B W_r[s + 1]
        padded = [0, 0, *weights, 0, 0]
        weights = [a * padded[i] + c * padded[i + 1] + b * padded[i + 2] for i in range(len(weights) + 2)]
    return found


def _threshold(weights: list[int], r: int, a: int, b: int, total: int) -> Fraction:
    """tau_r: under x, the probability of the worst set of outcomes that has probability 1/2 under x'."""
    here = there = 0  # 2 * weights under x and under x' of the outcomes with S > t
    for t in range(r, -r - 1, -1):
        mirrored = 2 * weights[r - t]  # under x', S = t weighs what S = -t weighs under x
        # The outcomes with S = t fill the set up to 1/2 under x'. Only a share of them is needed, and under x this
        # share weighs (a / b)^t times as much.
        if there + mirrored >= total:
            share = Fraction(a, b) ** t * (total - there)
            return (here + share) / (2 * total)
        here += 2 * weights[r + t]
        there += mirrored
    raise AssertionError("the weights add up to the total")


def _least_above(value: Fraction) -> float:
    """The least double that is strictly greater."""
    found = float(value)
    while Fraction(found) > value:
        found = nextafter(found, 0.0)
    while Fraction(found) <= value:
        found = nextafter(found, inf)
    return found
