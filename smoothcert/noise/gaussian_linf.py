"""Gaussian noise with radii in the l-infinity norm: |x'| <= sqrt(d) |x'|_inf, so R_inf = R_2 / sqrt(d)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import prod, sqrt
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field
from scipy.special import ndtr, ndtri

from smoothcert.errors import DomainError, require_count
from smoothcert.noise.gaussian import LARGEST_SIGMA, Gaussian
from smoothcert.noise.noise import Noise, Source, least_proving, require_probability_bound, rounded_down

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class GaussianLinf(Noise):
    """The samples of `Gaussian`; only the claim differs. No noise does better than this order of 1 / sqrt(d)."""

    sigma: Annotated[float, Field(strict=True, gt=0, le=LARGEST_SIGMA, allow_inf_nan=False)]
    """The standard deviation."""
    dimension: Annotated[int, Field(strict=True, ge=1)]
    """The number of values of an image, channels counted."""
    name: Literal["gaussian-linf"] = field(default="gaussian-linf", kw_only=True)
    norm: Literal["linf"] = field(default="linf", kw_only=True)

    proviso: ClassVar[str] = "with float32 taken for real numbers"
    scheme: ClassVar[str] = Gaussian.scheme

    def __post_init__(self) -> None:
        self._keep_number("sigma")
        Gaussian(self.sigma)  # the same domain
        require_count("dimension", self.dimension)

    @property
    def label(self) -> str:
        return f"gaussian-linf, sigma {self.sigma:g}, dimension {self.dimension}"

    def radius(self, p_lower: float) -> float:
        """sigma * Phi^-1(p_lower) / sqrt(dimension)."""
        require_probability_bound(p_lower)
        return rounded_down(self.sigma * float(ndtri(p_lower)) / sqrt(self.dimension))

    def probability(self, radius: float) -> float:
        """Phi(radius * sqrt(dimension) / sigma), rounded up to the least double that proves the radius."""
        self.require_radius(radius)
        return least_proving(self.radius, radius, float(ndtr(radius * sqrt(self.dimension) / self.sigma)))

    @property
    def image_values(self) -> int:
        return self.dimension

    def l2_square(self, radius: Fraction) -> Fraction:
        """R_inf = R_2 / sqrt(d), so the same counts prove R_2."""
        return radius**2 * self.dimension

    def suits(self, trained: Noise) -> bool:
        """An ensemble for Gaussian noise of the same sigma serves this claim as well."""
        return trained in (self, Gaussian(self.sigma))

    def scaled(self, factor: float) -> GaussianLinf | None:
        scaled = Gaussian(self.sigma).scaled(factor)
        return GaussianLinf(scaled.sigma, self.dimension) if scaled else None

    def require_images(self, shape: tuple[int, ...]) -> None:
        if (values := prod(shape)) != self.dimension:
            raise DomainError(f"dimension must be {values:,}, the values of an image; got {self.dimension:,}")

    def settle(self, pixels: Tensor) -> Tensor:
        self.require_images(tuple(pixels.shape))
        return pixels

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return source.normal(block, shape)

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        out.copy_(settled).add_(drawn, alpha=self.sigma)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return Gaussian(self.sigma).perturb(images, generator)
