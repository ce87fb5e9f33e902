"""Splitting noise for 8-bit images: an exact l1 certificate without chance (Levine and Feizi, 2021).

Every value of an image lies between two *splits*, which are 2 reach apart, and the network sees the centre of that
cell in place of the value. The splits of value i lie at v_i + j + 1/2 (in levels of 1/255, modulo L = 2 * 255 * reach)
for a fixed template v and a shift j = 0, ..., L - 1. Of all L shifts exactly |a - a'| put a split between two bytes a
and a', so the number of shifts on which the network answers a class changes by at most the l1 distance of two images
in levels. The noise has L outcomes in all: the procedure `exact` evaluates every one of them, and nothing is left to
chance. Everything is computed in whole numbers up to one look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from smoothcert.errors import DomainError, require_positive
from smoothcert.noise.grid import GRID, LookUp, levels, require_grid
from smoothcert.noise.noise import Noise, Source, least_proving, require_probability_bound
from smoothcert.noise.uniform import LARGEST_REACH, LEAST_REACH

if TYPE_CHECKING:
    import torch
    from torch import Tensor

WHOLE = 1e-9
"""How far 510 times the reach may be from a whole number: the error of a double."""
BLOCK = 32
"""The samples of a block: sample number i has shift i."""
CENTRES = LookUp((np.arange(4 * GRID + 1) / np.float64(4 * GRID)).astype(np.float32))
"""The centre of a cell by the sum of its two ends, in half levels."""


@dataclass(frozen=True)
class Splitting(Noise):
    """The network sees the centre of the cell that a value lies in; radii in l1, closed, in pixels of [0, 1]."""

    reach: Annotated[float, Field(strict=True, ge=LEAST_REACH, le=LARGEST_REACH, allow_inf_nan=False)]
    """Half the width of a cell, which is also the largest radius; 510 times it is a whole number."""
    template: Annotated[int, Field(strict=True, ge=0, lt=2**32)] = 0
    """The seed of the template v; networks are trained for one template."""
    name: Literal["splitting"] = field(default="splitting", kw_only=True)
    norm: Literal["l1"] = field(default="l1", kw_only=True)

    eight_bit: ClassVar[bool] = True
    exhaustible: ClassVar[bool] = True
    closed: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    scheme: ClassVar[str] = "every-shift"

    def __post_init__(self) -> None:
        self._keep_number("reach")
        require_positive("reach", self.reach)
        if not LEAST_REACH <= self.reach <= LARGEST_REACH:
            raise DomainError(f"reach must be from 1/255 to {LARGEST_REACH:g}, got {self.reach!r}")
        if abs(2 * GRID * self.reach - self.outcomes) > WHOLE:
            raise DomainError(f"reach must be a whole number of 510ths, such as 0.5 or 220 / 510, got {self.reach!r}")
        if isinstance(self.template, bool) or not isinstance(self.template, int) or not 0 <= self.template < 2**32:
            raise DomainError(f"template must be a whole number from 0 to 2^32 - 1, got {self.template!r}")

    @property
    def label(self) -> str:
        return f"splitting, reach {self.reach:g}"

    @property
    def outcomes(self) -> int:
        """L, the number of shifts."""
        return round(2 * GRID * self.reach)

    def proved(self, counts: Sequence[int]) -> tuple[int, float]:
        """The smoothed class and its radius, from the class counts of all L shifts; the last entry has no class.

        A change of k levels takes at most k shifts from the class A and gives at most k to its rival B. The class with
        most shifts wins, and of equals the one with the lowest index, so A must stay ahead of a B that comes before it.
        "No class" is a rival, too, and comes last.
        """
        top = max(range(len(counts) - 1), key=lambda c: (counts[c], -c))
        slack = min((counts[top] - count - (b < top)) // 2 for b, count in enumerate(counts) if b != top)
        return top, _radius(slack)

    def radius(self, p_lower: float) -> float:
        """The radius that a share p_lower of all shifts proves whatever the other classes have."""
        require_probability_bound(p_lower)
        share = int(Fraction(p_lower) * self.outcomes)
        return _radius((2 * share - self.outcomes - 1) // 2)

    def probability(self, radius: float) -> float:
        """The least share of all shifts that proves the radius whatever the other classes have."""
        self.require_radius(radius)
        needed = (self.outcomes + 2) // 2 + _levels(radius)
        return least_proving(self.radius, radius, min(1.0, needed / self.outcomes))

    def scaled(self, factor: float) -> Splitting | None:
        reach = round(self.reach * factor, 1)
        return Splitting(reach, self.template) if 0.1 <= reach <= LARGEST_REACH else None

    def require_values(self, pixels: npt.NDArray[Any]) -> None:
        require_grid(pixels)

    def settle(self, pixels: Tensor) -> Tensor:
        """The bytes in half levels."""
        return levels(pixels).int().mul_(2)

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        """The first split of every value at or above 0, in half levels, for the shifts of a block."""
        shifts = BLOCK * block + np.arange(BLOCK).reshape(BLOCK, *(1 for _ in shape))
        return source.place(_splits(self.outcomes, self.template, shape, shifts))

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        width = 2 * self.outcomes
        above = drawn - (drawn - settled).div(width, rounding_mode="floor") * width  # the next split above the value
        CENTRES.write(out, above.clamp(max=2 * GRID) + (above - width).clamp(min=0))

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A random shift for each image; images must be on the grid."""
        shifts = images.new_empty(len(images)).uniform_(0, self.outcomes, generator=generator).long().cpu().numpy()
        shape = tuple(images.shape[1:])
        splits = _splits(self.outcomes, self.template, shape, shifts.reshape(-1, *(1 for _ in shape)))
        noisy = images.new_empty(images.shape)
        settled = images.mul(GRID).round_().int().mul_(2)
        self.apply(noisy, settled, settled.new_tensor(splits))
        return noisy


def _splits(width: int, template: int, shape: tuple[int, ...], shifts: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The first splits at or above 0 for these shifts, in half levels."""
    moved = (template_of(width, template, shape) + shifts) % width
    return np.asarray(2 * moved + 1, np.int32)


@lru_cache(maxsize=8)
def template_of(width: int, template: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """v for images of this shape: uniform on 0, ..., L - 1, from a stream that numpy promises to keep."""
    raw = np.random.Philox(key=template).random_raw(int(np.prod(shape)))
    return ((raw >> np.uint64(2)) % np.uint64(width)).astype(np.int64).reshape(shape)


def _radius(slack: int) -> float:
    """`slack` levels as a radius, rounded *up* to six decimals; negative where nothing is proved.

    Distances between 8-bit images are whole levels, so the closed ball is the same, and 255 r does not fall below it.
    """
    return float((Decimal(slack) / GRID).quantize(Decimal("1e-6"), ROUND_CEILING)) if slack >= 0 else -1.0


def _levels(radius: float) -> int:
    """The least whole number of levels whose `_radius` is at least this."""
    found = int(Fraction(radius) * GRID)
    return found if _radius(found) >= radius else found + 1
