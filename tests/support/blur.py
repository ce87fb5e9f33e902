"""A noise that is not Gaussian, for the tests of everything that takes any noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from smoothcert.noise import NOISES, Noise, Source

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Blur(Noise):
    """Uniform noise on [-reach, reach] in every pixel, with l1 radii of 2 * reach * (p - 1/2)."""

    reach: float
    name: Literal["test-blur"] = field(default="test-blur", kw_only=True)
    norm: Literal["l1"] = field(default="l1", kw_only=True)

    scheme: ClassVar[str] = "test-blur"

    @property
    def label(self) -> str:
        return f"test-blur, reach {self.reach:g}"

    def radius(self, p_lower: float) -> float:
        return 2 * self.reach * (p_lower - 0.5)

    def probability(self, radius: float) -> float:
        return min(1.0, 0.5 + radius / (2 * self.reach))

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        raise AssertionError("training and ranking only perturb")

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        raise AssertionError("training and ranking only perturb")

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return images + images.clone().uniform_(-self.reach, self.reach, generator=generator)


@contextmanager
def known_blur() -> Iterator[None]:
    """Add the noise to those that files and command lines can name, during one test."""
    NOISES.add(Blur)
    try:
        yield
    finally:
        del NOISES._kinds["test-blur"]
        NOISES._validator = None
