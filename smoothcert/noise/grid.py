"""Images of bytes: values k / 255, and noises that add whole numbers to k.

Adding floating-point numbers tells where the image was: which float32 numbers x + e can give depends on x in their last
bits, and a network may read them. The noises that use this file add integers instead and turn the *sum* into one
float32 number by a table, so a network sees nothing but the noisy sum (Voráček and Hein, 2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from smoothcert.errors import OffGridError

if TYPE_CHECKING:
    from torch import Tensor

GRID = 255
"""The values of an image are k / GRID for whole k from 0 to GRID."""
BITS = 62
"""The bits of each random number that a noise on the grid is drawn from."""


def levels(pixels: Tensor) -> Tensor:
    """The bytes k, int16, of float32 pixels k / 255; OffGridError names the first value that is not one."""
    require_grid(pixels.cpu().numpy())
    return pixels.mul(GRID).round_().short()


def require_grid(pixels: npt.NDArray[Any]) -> None:
    """Raise OffGridError unless the pixels are bytes, or float32 numbers k / 255."""
    if pixels.dtype == np.uint8:
        return
    off = (np.rint(pixels * np.float32(GRID)) / np.float32(GRID)) != pixels
    if off.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(off))
        raise OffGridError(
            f"the image must have values k/255, as 8-bit images have; got {float(pixels[place])!r} at {list(place)} "
            "[channel, row, column]: send bytes, or ask for a noise that takes any image"
        )


class LookUp:
    """float32 numbers by whole number, placed once on every device that asks."""

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self._values = values
        self._placed: dict[Any, Tensor] = {}

    def write(self, out: Tensor, index: Tensor) -> None:
        """Write the entries at `index` into `out`, a float32 tensor of the same shape."""
        table = self._placed.get(out.device)
        if table is None:
            table = self._placed[out.device] = out.new_tensor(self._values)
        out.copy_(table.take(index.long()))
