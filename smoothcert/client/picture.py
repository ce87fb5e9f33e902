"""An image as a small file that a notebook can show; an array becomes a PNG without the help of PIL."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_SHOWN_BYTES = 1_000_000
"""The most bytes of an image as it was sent; a larger one would swell a notebook."""
COLOURS = {1: 0, 3: 2}
"""The colour type of a PNG, by its number of channels."""


def picture(sent: str | dict[str, Any]) -> bytes | None:
    """The file; None if the image is too large, or an array with other channels than a picture has."""
    text = sent if isinstance(sent, str) else sent["data"]
    if len(text) > MOST_SHOWN_BYTES:
        return None
    data = base64.b64decode(text)
    if isinstance(sent, str):
        return data
    pixels = _pixels(np.frombuffer(data, np.dtype(sent["dtype"]).newbyteorder("<")).reshape(sent["shape"]))
    return None if pixels is None else _png(pixels)


def _pixels(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8] | None:
    """The pixels [H, W, C], from 0 to 255; None if neither the first nor the last axis can be the channels."""
    if array.shape[2] not in COLOURS:
        array = np.moveaxis(array, 0, 2)
    if array.shape[2] not in COLOURS:
        return None
    return array if array.dtype == np.uint8 else np.rint(255 * array).astype(np.uint8)


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    height, width, channels = pixels.shape
    header = struct.pack(">2I5B", width, height, 8, COLOURS[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # PNG's filter type 0 before each row: not filtered
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
