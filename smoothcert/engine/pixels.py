"""The pixels of an image: checked, copied and hashed once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.engine.errors import PixelsError


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image as it is certified: float32 [C, H, W] in [0, 1] on the CPU, in memory of its own."""

    values: Tensor
    sha256: str
    """Over the float32 values, little-endian, in the order C, H, W."""

    @classmethod
    def of(cls, image: Tensor, input_shape: tuple[int, int, int]) -> Pixels:
        """A copy of the image; PixelsError names what is wrong with it."""
        values = _checked(image, input_shape).cpu().contiguous()
        return cls(values, hashlib.sha256(values.numpy().astype("<f4").tobytes()).hexdigest())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)


def _checked(image: Tensor, input_shape: tuple[int, int, int]) -> Tensor:
    if not isinstance(image, Tensor):
        raise PixelsError(f"an image must be a tensor, got {type(image).__name__}")
    if tuple(image.shape) != input_shape:
        raise PixelsError(f"the image has shape {tuple(image.shape)}, the ensemble takes {input_shape}")
    image = image.detach()
    if image.dtype == torch.uint8:
        return image.to(torch.float32) / 255
    if not image.is_floating_point():
        raise PixelsError(f"the image has dtype {image.dtype}; it must be uint8, or floating-point in [0, 1]")
    if not image.isfinite().all():
        raise PixelsError(f"the image has {int((~image.isfinite()).sum())} values that are not finite")
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise PixelsError(
            f"the image has values from {low:g} to {high:g}; they must lie in [0, 1], before any normalisation"
        )
    return image.to(torch.float32, copy=True)
