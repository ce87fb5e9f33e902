"""What a noise is: how far a probability reaches, and how samples are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict

from smoothcert.errors import DomainError, refuse_unknown, require_number, require_radius

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Norm = Literal["l2", "l1", "l0", "linf"]
Integers = npt.NDArray[np.int64]


class Source(Protocol):
    """The random numbers of one image. Block b belongs to the samples 32 b, ..., 32 b + 31 (see `engine.sampling`)."""

    def normal(self, block: int, shape: tuple[int, ...]) -> Tensor:
        """Standard normal float32 numbers [32, *shape], the same for every call with this block."""

    def integers(self, block: int, shape: tuple[int, ...], attempt: int = 0) -> Integers:
        """Whole numbers [32, *shape], uniform on [0, 2^62); another attempt gives others."""

    def place(self, values: npt.NDArray[Any]) -> Tensor:
        """The values as a tensor where the images are."""


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
    eight_bit: ClassVar[bool] = False
    """Whether its claims are about 8-bit images alone: values k / 255 at x and at every x'."""
    exhaustible: ClassVar[bool] = False
    """Whether it has so few `outcomes` that all of them are evaluated, instead of samples."""
    closed: ClassVar[bool] = False
    """Whether its claims hold at distance r itself, as in the l0 norm; otherwise they hold below it."""
    proviso: ClassVar[str] = ""
    """What its claims take for granted about the arithmetic, in words; empty where that is nothing."""
    portable: ClassVar[bool] = False
    """Whether a seed gives the same noise on every machine: true for noises that are drawn from integers alone."""
    scheme: ClassVar[str]
    """Names how the noise follows from a seed. Another way to draw it needs another scheme, or replay would differ."""

    def __new__(cls, *_: object, **named: object) -> Self:
        """Refuse unknown keywords before the dataclass does, which names no field that may have been meant."""
        refuse_unknown(named, (each.name for each in fields(cls)))  # type: ignore[arg-type]
        return super().__new__(cls)

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

    @property
    def outcomes(self) -> int | None:
        """The number of its outcomes, if all of them can be evaluated: sample i is then outcome i. None for random
        noise."""
        return None

    def proved(self, counts: Sequence[int]) -> tuple[int, float]:
        """The smoothed class and the radius that the class counts of all outcomes prove; negative for none."""
        raise DomainError(f"{self.name} noise is random: its outcomes cannot all be counted")

    @property
    def supremum(self) -> float:
        """The end of its radii: no p_A below one proves this radius or a larger one. Infinite for most noises."""
        return inf

    @property
    def image_values(self) -> int | None:
        """The number of values of the images that it is for, if its parameters say it."""
        return None

    def l2_square(self, radius: Fraction) -> Fraction | None:
        """The square of the l2 radius that is proved together with a radius of this noise; None where none is.

        A noise whose radii in another norm come from an l2 radius overrides this, because the l2 radius says more.
        """
        return radius**2 if self.norm == "l2" else None

    def suits(self, trained: Noise) -> bool:
        """Whether an ensemble that was trained with the noise `trained` is meant for this one."""
        return self == trained

    def on_bytes(self, shape: tuple[int, ...]) -> Noise:
        """The noise to take for 8-bit images of this shape if none is named: an exact one of the same law, if any."""
        return self

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

    def _keep_number(self, name: str) -> None:
        """Keep a parameter as Python's own float: numpy's would be written in another way into a certificate."""
        require_number(name, value := getattr(self, name))
        object.__setattr__(self, name, float(value))

    def require_radius(self, radius: float) -> None:
        """Raise DomainError for a radius that this noise cannot have."""
        require_radius(radius)
        if self.whole and radius != int(radius):
            raise DomainError(f"radius must be a whole number for {self.name} noise, got {radius!r}")

    def require_images(self, shape: tuple[int, ...]) -> None:  # noqa: B027 - most noises take all
        """Raise DomainError for images of a shape [C, H, W] that this noise cannot be applied to."""

    def require_values(self, pixels: npt.NDArray[Any]) -> None:  # noqa: B027 - most noises take all
        """Raise OffGridError for uint8 or float32 pixels [C, H, W] that this noise cannot be applied to."""

    def parameters(self) -> dict[str, Any]:
        """Its fields, name and norm included."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


def require_probability_bound(p_lower: float) -> None:
    """Raise DomainError for a p_lower outside [0, 1]."""
    if not 0.0 <= p_lower <= 1.0:
        raise DomainError(f"p_lower must lie between 0 and 1, got {p_lower!r}")


def rounded_down(radius: float) -> float:
    """A little less than a radius that was computed in doubles: never more than real arithmetic would give."""
    return radius * (1 - 2.0**-50) if radius > 0 else radius


def least_proving(radius_of: Callable[[float], float], radius: float, guess: float) -> float:
    """The least double p with radius_of(p) >= radius, found from a guess that is a few doubles off; 1 if none is."""
    p = min(max(guess, 0.5), 1.0)
    while p < 1.0 and radius_of(p) < radius:
        p = nextafter(p, 1.0)
    while p > 0.5 and radius_of(nextafter(p, 0.0)) >= radius:
        p = nextafter(p, 0.0)
    return p
