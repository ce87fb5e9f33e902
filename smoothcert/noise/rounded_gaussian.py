"""Gaussian noise for 8-bit images, rounded to the grid: Cohen's theorem without floating-point arithmetic.

For an image on the grid of 1/255, round(x + e) = x + round(e). So smoothing a classifier of grid points by Gaussian
noise *is* adding the integers N = round(255 e) to the bytes, and the theorem holds word for word at every 8-bit
image. N is drawn from 62 fair bits by a table of thresholds; what finite bits cost is below SLACK, and p_A pays for
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import ndtr, ndtri

from smoothcert.errors import DomainError, require_positive
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.grid import BITS, GRID, LookUp, levels, require_grid
from smoothcert.noise.noise import Integers, Noise, Source, least_proving, require_probability_bound, rounded_down

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SLACK = 2.0**-32
"""The most that p_A can differ between the drawn law and the rounded Gaussian: d (2 T + 1) 2^-63 for d values."""
MOST_VALUES = 1 << 31
"""SLACK covers d (2 T + 1) up to this: ImageNet at sigma 1 has 6.1e8."""
LARGEST_SIGMA = 2.0
"""The table of thresholds has 4,080 sigma entries and takes .4 sigma seconds to build."""
CELL_BITS = 16
"""The table is read off directly for a cell of these high bits, unless a threshold lies inside the cell."""


@dataclass(frozen=True)
class RoundedGaussian(Noise):
    """N = round(255 sigma n) for standard normal n is added to the bytes of an image; radii in l2, pixels of [0, 1]."""

    sigma: Annotated[float, Field(strict=True, gt=0, le=LARGEST_SIGMA, allow_inf_nan=False)]
    """The standard deviation, in pixels of [0, 1]."""
    name: Literal["rounded-gaussian"] = field(default="rounded-gaussian", kw_only=True)
    norm: Literal["l2"] = field(default="l2", kw_only=True)

    eight_bit: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    scheme: ClassVar[str] = "philox-62-rounded-gaussian"

    def __post_init__(self) -> None:
        self._keep_number("sigma")
        require_positive("sigma", self.sigma)
        if self.sigma > LARGEST_SIGMA:
            raise DomainError(f"sigma must be at most {LARGEST_SIGMA:g} for rounded-gaussian noise, got {self.sigma!r}")

    @property
    def label(self) -> str:
        return f"rounded-gaussian, sigma {self.sigma:g}"

    def radius(self, p_lower: float) -> float:
        """sigma * Phi^-1(p_lower - SLACK)."""
        require_probability_bound(p_lower)
        return rounded_down(self.sigma * float(ndtri(max(0.0, p_lower - SLACK))))

    def probability(self, radius: float) -> float:
        """Phi(radius / sigma) + SLACK, rounded up to the least double that proves the radius."""
        self.require_radius(radius)
        return least_proving(self.radius, radius, float(ndtr(radius / self.sigma)) + SLACK)

    def suits(self, trained: Noise) -> bool:
        """An ensemble for Gaussian noise of the same sigma needs no further training."""
        return trained in (self, Gaussian(self.sigma))

    def scaled(self, factor: float) -> RoundedGaussian | None:
        sigma = self.sigma * factor
        return RoundedGaussian(sigma) if sigma <= LARGEST_SIGMA else None

    def require_images(self, shape: tuple[int, ...]) -> None:
        values = prod(shape)
        if values * (2 * tail_of(self.sigma) + 1) > MOST_VALUES:
            raise DomainError(f"noise {self.label} cannot be exact for images of {values:,} values")

    def require_values(self, pixels: npt.NDArray[Any]) -> None:
        require_grid(pixels)

    def settle(self, pixels: Tensor) -> Tensor:
        """The bytes plus T, so that adding N gives an index into the table of sums."""
        self.require_images(tuple(pixels.shape))
        return levels(pixels).add_(table(self.sigma).tail)

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return source.place(table(self.sigma).integers(source.integers(block, shape)))

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        table(self.sigma).sums.write(out, settled + drawn)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Float noise: the grid makes no difference to training."""
        return Gaussian(self.sigma).perturb(images, generator)


class Table:
    """The law of N for one sigma: N = -T + #{i : t_i <= u} for u uniform on [0, 2^62)."""

    def __init__(self, sigma: float) -> None:
        self.tail = tail_of(sigma)
        self.thresholds = np.array(_thresholds(sigma, self.tail), dtype=np.int64)
        """t_i = round(2^62 Phi((2 i + 1) / (510 sigma))) for i = -T, ..., T - 1."""
        # A sum a + N is cut to [255 - T, T], so the law of N beyond +-T does not matter: the cut hides it for every a.
        sums = np.arange(-self.tail, GRID + self.tail + 1).clip(GRID - self.tail, self.tail)
        self.sums = LookUp((sums / np.float64(GRID)).astype(np.float32))
        # Each cell of the high bits of u has one value of N, unless a threshold lies inside it (-1 in `_cells` then).
        edges = np.arange((1 << CELL_BITS) + 1, dtype=np.int64) << (BITS - CELL_BITS)
        below = np.searchsorted(self.thresholds, edges[:-1], side="right")
        above = np.searchsorted(self.thresholds, edges[1:] - 1, side="right")
        self._cells = np.where(below == above, below - self.tail, _MIXED).astype(np.int16)

    def integers(self, u: Integers) -> npt.NDArray[np.int16]:
        """N for whole numbers u that are uniform on [0, 2^62)."""
        drawn: npt.NDArray[np.int16] = self._cells[u >> (BITS - CELL_BITS)]
        mixed = np.flatnonzero(drawn == _MIXED)
        drawn.reshape(-1)[mixed] = np.searchsorted(self.thresholds, u.reshape(-1)[mixed], side="right") - self.tail
        return drawn


@lru_cache(maxsize=64)
def tail_of(sigma: float) -> int:
    """T, the largest |N|: at least eight standard deviations and two ranges of an image."""
    return max(2 * GRID, ceil(Fraction(repr(sigma)) * 8 * GRID))


_MIXED = np.iinfo(np.int16).min


@lru_cache(maxsize=8)
def table(sigma: float) -> Table:
    return Table(sigma)


def _thresholds(sigma: float, tail: int) -> list[int]:
    """Exact to half a unit: Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...), a series of positive terms."""
    with localcontext() as context:
        context.prec = 60
        exact = Fraction(repr(sigma))
        step = Decimal(exact.denominator) / (2 * GRID * Decimal(exact.numerator))
        root = (2 * _pi()).sqrt()
        upper = [round((1 << BITS) * (Decimal("0.5") + _half_mass((2 * i + 1) * step, root))) for i in range(tail)]
    return [(1 << BITS) - t for t in reversed(upper)] + upper


def _half_mass(x: Decimal, root: Decimal) -> Decimal:
    """Phi(x) - 1/2 for x > 0."""
    total = term = x
    k = 1
    while term > total * Decimal("1e-58"):
        k += 2
        term = term * x * x / k
        total += term
    return total * (-x * x / 2).exp() / root


def _pi() -> Decimal:
    """By Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _atan_inverse(5) - 4 * _atan_inverse(239)


def _atan_inverse(n: int) -> Decimal:
    total = power = Decimal(1) / n
    k, sign = 1, 1
    while power > Decimal("1e-65"):
        power /= n * n
        k, sign = k + 2, -sign
        total += sign * power / k
    return total
