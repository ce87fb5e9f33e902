"""An image as it was sent, as a small file that a notebook can show: of an array, a PNG made without PIL."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 1_000_000
"""Of the image as it was sent: larger ones would swell a notebook."""
COLOURS = {1: 0, 3: 2}
"""The colour type of a PNG, by its channels."""


def picture(sent: str | dict[str, Any]) -> bytes | None:
    """The file; None where the image is too large, or an array that is no picture."""
    text = sent if isinstance(sent, str) else sent["data"]
    if len(text) > MOST_BYTES:
        return None
    data = base64.b64decode(text)
    if isinstance(sent, str):
        return data
    pixels = _pixels(np.frombuffer(data, np.dtype(sent["dtype"]).newbyteorder("<")).reshape(sent["shape"]))
    return None if pixels is None else _png(pixels)


def _pixels(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8] | None:
    """[H, W, C], from 0 to 255."""
    if array.shape[2] not in COLOURS:
        array = np.moveaxis(array, 0, 2)
    if array.shape[2] not in COLOURS:
        return None
    return array if array.dtype == np.uint8 else np.rint(255 * array).astype(np.uint8)


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    height, width, channels = pixels.shape
    header = struct.pack(">2I5B", width, height, 8, COLOURS[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # a zero before each: it is not filtered
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
