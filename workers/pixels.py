"""The identity of an image."""

from __future__ import annotations

import hashlib

from torch import Tensor


def pixels_sha256(pixels: Tensor) -> str:
    """Of float32 pixels, little-endian, in the order C, H, W."""
    return hashlib.sha256(pixels.cpu().contiguous().numpy().astype("<f4").tobytes()).hexdigest()
