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


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, sigma^2 I) is added to pixels in [0, 1]; radii follow from Theorem 1 of Cohen et al."""

    sigma: Annotated[float, Field(strict=True, gt=0, le=100, allow_inf_nan=False)]
    """The standard deviation."""
    name: Literal["gaussian"] = field(default="gaussian", kw_only=True)
    norm: Literal["l2"] = field(default="l2", kw_only=True)

    scheme: ClassVar[str] = "torch-normal-32"

    def __post_init__(self) -> None:
        require_positive("sigma", self.sigma)

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

    def scaled(self, factor: float) -> Gaussian:
        return Gaussian(self.sigma * factor)

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        return source.normal(block, shape)

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        out.copy_(settled).add_(drawn, alpha=self.sigma)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        drawn = images.clone().normal_(generator=generator)  # in the memory layout of the images, like torch.randn_like
        return images + self.sigma * drawn
