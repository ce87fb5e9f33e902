"""Uniform noise on [-reach, reach] for 8-bit images, with radii in the l1 norm (Yang et al., 2020).

Two cubes of half width `reach` that are shifted by delta share at least 1 - |delta|_1 / (2 reach) of their volume, and
the densities agree there. So p_A falls by at most |delta|_1 / (2 reach), and the radius is 2 reach (p_A - 1/2). As in
`rounded_gaussian`, the noise is rounded to the grid of 1/255 and integers are added; the law is exact by rejection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from smoothcert.errors import DomainError, require_positive
from smoothcert.noise.grid import BITS, GRID, LookUp, levels, require_grid
from smoothcert.noise.noise import Integers, Noise, Source, least_proving, require_probability_bound, rounded_down

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LEAST_REACH, LARGEST_REACH = 1 / GRID, 10.0
DECIMALS = 3
"""The most decimal places of the reach, so that the law of the noise is a small exact fraction."""


@dataclass(frozen=True)
class Uniform(Noise):
    """N = round(255 reach U), U uniform on [-1, 1], is added to the bytes of an image; radii in l1, in pixels."""

    reach: Annotated[float, Field(strict=True, ge=LEAST_REACH, le=LARGEST_REACH, allow_inf_nan=False)]
    """The half width, which is also the largest radius; the standard deviation is reach / sqrt(3)."""
    name: Literal["uniform"] = field(default="uniform", kw_only=True)
    norm: Literal["l1"] = field(default="l1", kw_only=True)

    eight_bit: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    scheme: ClassVar[str] = "philox-62-uniform"

    def __post_init__(self) -> None:
        self._keep_number("reach")
        require_positive("reach", self.reach)
        if not LEAST_REACH <= self.reach <= LARGEST_REACH:
            raise DomainError(f"reach must be from 1/255 to {LARGEST_REACH:g}, got {self.reach!r}")
        if _decimals(self.reach) > DECIMALS:
            raise DomainError(f"reach must have at most {DECIMALS} decimals, got {self.reach!r}")

    @property
    def label(self) -> str:
        return f"uniform, reach {self.reach:g}"

    @property
    def deviation(self) -> float:
        """The standard deviation, by which some papers name this noise."""
        return self.reach / sqrt(3)

    @property
    def supremum(self) -> float:
        return self.reach

    def radius(self, p_lower: float) -> float:
        """2 reach (p_lower - 1/2): negative below 1/2, and never more than the reach."""
        require_probability_bound(p_lower)
        return rounded_down(2 * self.reach * (p_lower - 0.5))

    def probability(self, radius: float) -> float:
        """1/2 + radius / (2 reach), rounded up to the least double that proves the radius; 1 from the reach on."""
        self.require_radius(radius)
        if radius >= self.reach:
            return 1.0
        return least_proving(self.radius, radius, 0.5 + radius / (2 * self.reach))

    def scaled(self, factor: float) -> Uniform:
        return Uniform(round(min(max(self.reach * factor, 0.004), LARGEST_REACH), DECIMALS))

    def require_values(self, pixels: npt.NDArray[Any]) -> None:
        require_grid(pixels)

    def settle(self, pixels: Tensor) -> Tensor:
        """The bytes plus the largest N, so that adding N gives an index into the table of sums."""
        return levels(pixels).add_(law(self.reach).most)

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        sides = law(self.reach).sides
        return source.place(law(self.reach).integers(fair_die(source, block, shape, sides)))

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        law(self.reach).sums.write(out, settled + drawn)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Float noise: the grid makes no difference to training."""
        return images + images.new_empty(images.shape).uniform_(-self.reach, self.reach, generator=generator)


class Law:
    """The exact law of N = round(w U), w = 255 reach = a / b in lowest terms, by a fair die of 4 a sides."""

    def __init__(self, reach: float) -> None:
        width = GRID * Fraction(repr(reach))
        a, self._b = width.numerator, width.denominator
        self.sides = 4 * a
        self.most = ceil(width - Fraction(1, 2))
        # The two ends +-most have E sides each, every N in between has 2 b.
        self._end = 2 * a - (2 * self.most - 1) * self._b
        sums = np.arange(-self.most, GRID + self.most + 1)
        self.sums = LookUp((sums / np.float64(GRID)).astype(np.float32))

    def integers(self, side: Integers) -> npt.NDArray[np.int16]:
        """N for the side of the die that came up."""
        inner = (side - self._end) // (2 * self._b) + 1 - self.most
        inner[side < self._end] = -self.most
        inner[side >= self.sides - self._end] = self.most
        return inner.astype(np.int16)


@lru_cache(maxsize=8)
def law(reach: float) -> Law:
    return Law(reach)


def fair_die(source: Source, block: int, shape: tuple[int, ...], sides: int) -> Integers:
    """Whole numbers [32, *shape], exactly uniform on 0, ..., sides - 1 if the bits are fair.

    A block in which some number falls beyond the largest multiple of `sides` below 2^62 is drawn again as a whole.
    """
    limit = (1 << BITS) // sides * sides
    attempt, u = 0, source.integers(block, shape)
    while (u >= limit).any():
        attempt += 1
        u = source.integers(block, shape, attempt)
    return u % sides


def _decimals(value: float) -> int:
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else DECIMALS + 1
