"""Noises: how far a lower bound on p_A reaches.

A noise is one object. Another noise or norm is one more class with the members of `Noise`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from scipy.special import ndtr, ndtri

from smoothcert.errors import DomainError, require_positive, require_radius


class Noise(Protocol):
    """What the procedures need to know of a noise."""

    @property
    def norm(self) -> str:
        """The norm in which its radii are stated."""

    def radius(self, p_lower: float) -> float:
        """The radius within which the smoothed answer is constant if p_A >= p_lower; strictly increasing."""

    def probability(self, radius: float) -> float:
        """The least p_A that proves this radius: the inverse of `radius`."""


@dataclass(frozen=True)
class Gaussian:
    """Isotropic Gaussian noise N(0, sigma^2 I) in pixels of [0, 1]; radii in the l2 norm (Cohen et al., Theorem 1)."""

    sigma: float
    name: Literal["gaussian"] = field(default="gaussian", kw_only=True)
    norm: Literal["l2"] = field(default="l2", kw_only=True)

    def __post_init__(self) -> None:
        require_positive("sigma", self.sigma)

    def radius(self, p_lower: float) -> float:
        """sigma * Phi^-1(p_lower): negative below 1/2, infinite at 0 and 1."""
        if not 0.0 <= p_lower <= 1.0:
            raise DomainError(f"p_lower must lie between 0 and 1, got {p_lower!r}")
        return self.sigma * float(ndtri(p_lower))

    def probability(self, radius: float) -> float:
        """Phi(radius / sigma), for radius >= 0."""
        require_radius(radius)
        return float(ndtr(radius / self.sigma))


AnyNoise = Gaussian
"""Every noise that a certificate can name; another one joins as `Gaussian | Another`."""
