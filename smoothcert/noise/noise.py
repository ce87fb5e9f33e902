"""What a noise is: how far a probability reaches, and how samples are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import ConfigDict

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Norm = Literal["l2", "l1", "l0", "linf"]


class Source(Protocol):
    """The random numbers of one image. Block b belongs to the samples 32 b, ..., 32 b + 31 (see `engine.sampling`)."""

    def normal(self, block: int, shape: tuple[int, ...]) -> Tensor:
        """Standard normal float32 numbers [32, *shape], the same for every call with this block."""


class Noise(ABC):
    """A noise is a frozen dataclass: its fields are its parameters, and a certificate states them as they are.

    A subclass has the fields `name`, a Literal with the name by which JSON knows it, and `norm`. It imports no torch:
    what handles tensors uses their methods.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str
    norm: Norm
    """The norm in which its radii are stated."""

    whole: ClassVar[bool] = False
    """Whether its radii are whole numbers, as in the l0 norm."""
    scheme: ClassVar[str]
    """Names how the noise follows from a seed. Another way to draw it needs another scheme, or replay would differ."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The noise and its parameters for people, for example "gaussian, sigma 0.25"."""

    @abstractmethod
    def radius(self, p_lower: float) -> float:
        """The largest radius that p_A >= p_lower proves; not above zero where p_lower <= 1/2. Non-decreasing."""

    @abstractmethod
    def probability(self, radius: float) -> float:
        """The least p_A that proves the radius; 1 where no p_A below one does."""

    def suits(self, trained: Noise) -> bool:
        """Whether an ensemble that was trained with the noise `trained` is meant for this one."""
        return self == trained

    def scaled(self, factor: float) -> Noise | None:
        """The same noise with `factor` times its strength; None for a noise that has no strength to scale."""
        return None

    # --- sampling: `settle` once for an image, `draw` once for a block of samples, `apply` once for each batch

    def settle(self, pixels: Tensor) -> Tensor:
        """What is perturbed, from the float32 pixels [C, H, W] in [0, 1]: the pixels themselves, unless overridden."""
        return pixels

    @abstractmethod
    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        """The noise [32, *shape] of one block of samples."""

    @abstractmethod
    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        """Write the noisy images into `out` [n, C, H, W] for n rows `drawn` of a block."""

    @abstractmethod
    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Images [N, C, H, W] under one draw of noise each, for training and ranking."""

    def require_radius(self, radius: float) -> None:
        """Raise DomainError for a radius that this noise cannot have."""
        from smoothcert.errors import DomainError, require_radius

        require_radius(radius)
        if self.whole and radius != int(radius):
            raise DomainError(f"radius must be a whole number for {self.name} noise, got {radius!r}")

    def parameters(self) -> dict[str, Any]:
        """Its fields, name and norm included."""
        from dataclasses import asdict

        return asdict(self)  # type: ignore[call-overload, no-any-return]
