"""The pixels of an image: what they must be, and their identity."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from workers.errors import ImageError


def pixels_sha256(pixels: Tensor) -> str:
    """Of float32 pixels, little-endian, in the order C, H, W."""
    return hashlib.sha256(pixels.cpu().contiguous().numpy().astype("<f4").tobytes()).hexdigest()


def check_image(image: Tensor, input_shape: tuple[int, int, int]) -> Tensor:
    """A copy of the image as float32 pixels [C, H, W] in [0, 1]; an error names what is wrong with it."""
    if not isinstance(image, Tensor):
        raise ImageError(f"an image must be a tensor, got {type(image).__name__}")
    if tuple(image.shape) != input_shape:
        raise ImageError(f"the image has shape {tuple(image.shape)}, the ensemble takes {input_shape}")
    image = image.detach()
    if image.dtype == torch.uint8:
        return image.to(torch.float32) / 255
    if not image.is_floating_point():
        raise ImageError(f"the image has dtype {image.dtype}; it must be uint8, or floating-point in [0, 1]")
    if not image.isfinite().all():
        raise ImageError(f"the image has {int((~image.isfinite()).sum())} values that are not finite")
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise ImageError(f"the image has values from {low:g} to {high:g}; they must lie in [0, 1]")
    return image.to(torch.float32, copy=True)
