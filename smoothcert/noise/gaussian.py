"""Isotropic Gaussian noise, with radii in the l2 norm (Cohen et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field
from scipy.special import ndtr, ndtri

from smoothcert.errors import DomainError, require_positive
from smoothcert.noise.noise import Noise, Source

if TYPE_CHECKING:
    import torch
    from torch import Tensor


LARGEST_SIGMA = 100.0
"""Far beyond any use; it keeps every radius a finite number."""


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, sigma^2 I) is added to pixels in [0, 1]; radii follow from Theorem 1 of Cohen et al."""

    sigma: Annotated[float, Field(strict=True, gt=0, le=LARGEST_SIGMA, allow_inf_nan=False)]
    """The standard deviation."""
    name: Literal["gaussian"] = field(default="gaussian", kw_only=True)
    norm: Literal["l2"] = field(default="l2", kw_only=True)

    proviso: ClassVar[str] = "with float32 taken for real numbers"
    scheme: ClassVar[str] = "torch-normal-32"

    def __post_init__(self) -> None:
        self._keep_number("sigma")
        require_positive("sigma", self.sigma)
        if self.sigma > LARGEST_SIGMA:
            raise DomainError(f"sigma must be at most {LARGEST_SIGMA:g}, got {self.sigma!r}")

    @property
    def label(self) -> str:
        return f"gaussian, sigma {self.sigma:g}"

    def radius(self, p_lower: float) -> float:
        """sigma * Phi^-1(p_lower): negative below 1/2, infinite at 0 and 1."""
        if not 0.0 <= p_lower <= 1.0:
            raise DomainError(f"p_lower must lie between 0 and 1, got {p_lower!r}")
        return self.sigma * float(ndtri(p_lower))

    def probability(self, radius: float) -> float:
        """Phi(radius / sigma), for radius >= 0."""
        self.require_radius(radius)
        return float(ndtr(radius / self.sigma))

    def on_bytes(self, shape: tuple[int, ...]) -> Noise:
        from smoothcert.noise.rounded_gaussian import RoundedGaussian  # it imports this file

        try:
            exact = RoundedGaussian(self.sigma)
            exact.require_images(shape)
        except DomainError:  # too large a sigma, or too many values
            return self
        return exact

    def scaled(self, factor: float) -> Gaussian | None:
        sigma = self.sigma * factor
        return Gaussian(sigma) if sigma <= LARGEST_SIGMA else None

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return source.normal(block, shape)

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        out.copy_(settled).add_(drawn, alpha=self.sigma)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        drawn = images.clone().normal_(generator=generator)  # in the memory layout of the images, like torch.randn_like
        return images + self.sigma * drawn
