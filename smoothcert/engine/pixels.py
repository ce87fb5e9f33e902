"""The pixels of an image: checked, copied and hashed once; an image of bytes stays one until its samples are drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.engine.errors import PixelsError

GREYS = torch.arange(256, dtype=torch.float32) / 255
"""The values of the 256 bytes, computed on the CPU: a GPU divides by multiplying, and its last bits may differ."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image [C, H, W] as it is certified: bytes, or float32 in [0, 1], on the CPU in memory that no other code
    writes.

    Bytes take a quarter of the memory, and a worker holds thousands of images.
    """

    stored: Tensor
    sha256: str
    """Over the float32 values, little-endian, in the order C, H, W."""

    @classmethod
    def of(cls, image: Tensor, input_shape: tuple[int, int, int]) -> Pixels:
        """A copy of the image; PixelsError names what is wrong with it."""
        return cls.owned(image.clone() if isinstance(image, Tensor) else image, input_shape)

    @classmethod
    def owned(cls, image: Tensor, input_shape: tuple[int, int, int]) -> Pixels:
        """The image itself, for a caller that gives it away: copies of many images leave holes in the heap."""
        stored = _checked(image, input_shape).cpu().contiguous()
        return cls(stored, hashlib.sha256(floats(stored).numpy().astype("<f4").tobytes()).hexdigest())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.stored.shape)


def floats(stored: Tensor) -> Tensor:
    """float32 values in [0, 1] of pixels that may be bytes, on the same device."""
    return GREYS.to(stored.device)[stored.long()] if stored.dtype == torch.uint8 else stored


def _checked(image: Tensor, input_shape: tuple[int, int, int]) -> Tensor:
    if not isinstance(image, Tensor):
        raise PixelsError(f"an image must be a tensor, got {type(image).__name__}")
    if tuple(image.shape) != input_shape:
        raise PixelsError(f"the image has shape {tuple(image.shape)}, the ensemble takes {input_shape}")
    image = image.detach()
    if image.dtype == torch.uint8:
        return image
    if not image.is_floating_point():
        raise PixelsError(f"the image has dtype {image.dtype}; it must be uint8, or floating-point in [0, 1]")
    if not image.isfinite().all():
        raise PixelsError(f"the image has {int((~image.isfinite()).sum())} values that are not finite")
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise PixelsError(
            f"the image has values from {low:g} to {high:g}; they must lie in [0, 1], before any normalisation"
        )
    return image.to(torch.float32)
