"""Images as they are sent, and the one array of pixels that is certified.

Nothing is changed silently: an image that has another size, other channels, transparency, a palette, sixteen bits or an
orientation tag than the ensemble takes is refused, with what was seen and what is wanted. `convert` allows what changes
colours; nothing allows what moves pixels.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

# imported to be registered: Pillow looks for no other format here
from PIL import Image, JpegImagePlugin, PngImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401

from app.http.errors import invalid
from app.http.npy import Pixels
from smoothcert.errors import shown
from smoothcert.request import TensorImage

FORMATS = ("PNG", "JPEG", "WEBP")
MODES = {1: "L", 3: "RGB"}
CONVERSIONS = {"rgb": "RGB", "grey": "L"}
ORIENTATION, UPRIGHT = 0x0112, 1  # of EXIF
PNG_BIT_DEPTH = 24  # its offset in a PNG file
PNG, JPEG, SCAN = b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xda"
MOST_PIECES, PIECE = 100, 2048
"""Chunks or scans that a file may have, and bytes for each one more."""

Sent = str | bytes | TensorImage | Pixels
"""Base64 of a file, a file, a tensor, or an array."""


@dataclass(frozen=True)
class Wanted:
    """What an ensemble takes, and what may be done to an image."""

    channels: int
    height: int
    width: int
    convert: Literal["none", "rgb", "grey"]
    most_pixels: int


class ImageError(ValueError):
    """An image that cannot be certified as it is."""


def decode(images: Sequence[Sent] | Pixels, wanted: Wanted) -> Pixels:
    """[N, C, H, W], uint8 where every image has 8 bits, otherwise float32 in [0, 1]; names the image that is wrong."""
    decoded = np.empty((len(images), wanted.channels, wanted.height, wanted.width), _dtype(images))
    for index, image in enumerate(images):
        try:
            pixels = _decoded(image, wanted)
        except ImageError as error:
            raise invalid(f"images.{index}", str(error), code="invalid_image") from None
        decoded[index] = pixels if decoded.dtype == np.uint8 else _as_float32(pixels)
    return decoded


def decoded_bytes(images: Sequence[Sent] | Pixels, wanted: Wanted) -> int:
    """What `decode` will take, whatever was sent: files may be much smaller than their pixels."""
    return len(images) * wanted.channels * wanted.height * wanted.width * _dtype(images).itemsize


def _dtype(images: Sequence[Sent] | Pixels) -> np.dtype[Any]:
    """The one for all of them: a single image of numbers makes numbers of all."""
    if isinstance(images, np.ndarray):
        whole = images.dtype == np.uint8
    else:
        whole = all(isinstance(image, str | bytes) or image.dtype == "uint8" for image in images)
    return np.dtype(np.uint8 if whole else np.float32)


def _decoded(image: Sent, wanted: Wanted) -> Pixels:
    match image:
        case str():
            return _from_file(_from_base64(image), wanted)
        case bytes():
            return _from_file(image, wanted)
        case TensorImage():
            return _from_array(_from_tensor(image), wanted)
        case _:
            return _from_array(image, wanted)


def _as_float32(pixels: Pixels) -> Pixels:
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)  # as the worker does it
    return pixels.astype(np.float32)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"is not base64 ({error}), got {shown(text)}") from None


# --- arrays


def _from_tensor(tensor: TensorImage) -> Pixels:
    data, dtype = _from_base64(tensor.data), np.dtype(tensor.dtype).newbyteorder("<")
    if len(data) != (needed := math.prod(tensor.shape) * dtype.itemsize):
        raise ImageError(f"shape {list(tensor.shape)} of {tensor.dtype} takes {needed:,} bytes, got {len(data):,}")
    return np.frombuffer(data, dtype).reshape(tensor.shape)


def _from_array(array: Pixels, wanted: Wanted) -> Pixels:
    pixels = np.ascontiguousarray(_channels_first(array, wanted))
    if pixels.dtype == np.uint8:
        return pixels
    if not np.isfinite(pixels).all():
        raise ImageError("has values that are NaN or infinite, wanted numbers from 0 to 1")
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        raise ImageError(f"has values from {low:g} to {high:g}, wanted 0 to 1 (or uint8 from 0 to 255)")
    return pixels


def _channels_first(array: Pixels, wanted: Wanted) -> Pixels:
    first = (wanted.channels, wanted.height, wanted.width)
    last = (wanted.height, wanted.width, wanted.channels)
    if array.shape == first == last and wanted.channels > 1:
        raise ImageError(f"has shape {list(first)}, from which the order of its axes cannot be told: send a file")
    if array.shape == first:
        return array
    if array.shape == last:
        return array.transpose(2, 0, 1)
    raise ImageError(f"has shape {list(array.shape)}, wanted {list(first)} (C, H, W) or {list(last)} (H, W, C)")


# --- files


def _from_file(data: bytes, wanted: Wanted) -> Pixels:
    """The pixels of a file, which is decoded only once its header has passed every check."""
    _require_few_pieces(data)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            mode = _mode(image, data, wanted)
            _require_whole(image, data)
            return _pixels(image, mode)
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(f"cannot be decoded as PNG, JPEG or WebP; it begins with {shown(data[:8])}") from None
    except Exception as error:  # whatever a decoder makes of bytes that somebody sent
        raise ImageError(f"cannot be decoded as PNG, JPEG or WebP: {f'{error}'[:200]}") from None


def _require_few_pieces(data: bytes) -> None:
    """That a file is not cut into tiny pieces: a decoder takes its time for each, be it empty."""
    few = MOST_PIECES + len(data) // PIECE
    if sum(1 for _ in islice(_pieces(data), few + 1)) > few:
        raise ImageError(f"has {len(data):,} bytes in more than {few:,} chunks, segments or scans, wanted larger ones")


def _pieces(data: bytes) -> Iterator[int]:
    """Where the chunks of a PNG begin, and the segments and scans of a JPEG; in a WebP they cost nothing."""
    if data.startswith(PNG):
        offset = len(PNG)
        while offset + 4 <= len(data):
            yield offset
            offset += 12 + int.from_bytes(data[offset : offset + 4])
    elif data.startswith(JPEG):
        offset = len(JPEG)
        while offset + 4 <= len(data) and not data.startswith(SCAN, offset):
            yield offset
            marked = data[offset] == 0xFF and 0xC0 <= data[offset + 1] < 0xFF
            offset += 2 + int.from_bytes(data[offset + 2 : offset + 4]) if marked else 1
        while (offset := data.find(SCAN, offset)) >= 0:
            yield offset
            offset += len(SCAN)


def _mode(image: Image.Image, data: bytes, wanted: Wanted) -> str:
    """The mode to read it in: its own, or the one that it may be converted to."""
    if getattr(image, "n_frames", 1) > 1:
        raise ImageError(f"has {getattr(image, 'n_frames', 2)} frames, wanted one still image")
    if image.width * image.height > wanted.most_pixels:
        raise ImageError(f"has {image.width:,} x {image.height:,} pixels, more than {wanted.most_pixels:,}")
    if image.size != (wanted.width, wanted.height):
        seen = f"{image.width} x {image.height}"
        raise ImageError(
            f"is {seen} (width x height), wanted {wanted.width} x {wanted.height}; nothing is resized here"
        )
    if (turned := image.getexif().get(ORIENTATION, UPRIGHT)) != UPRIGHT:
        raise ImageError(f"has EXIF orientation {turned!r}; turn its pixels and remove the tag")
    if (own := MODES.get(wanted.channels)) is None:
        raise ImageError(f"is a file, but the ensemble takes {wanted.channels} channels: send a tensor")
    if wanted.convert == "none" and (kind := _kind(image, data)) != own:
        way = "rgb" if own == "RGB" else "grey"
        raise ImageError(f"is {kind}, wanted {own} with 8 bits; `convert`: {way!r} allows to change that")
    if wanted.convert != "none" and CONVERSIONS[wanted.convert] != own:
        raise ImageError(f"cannot be used as {wanted.convert!r}: the ensemble takes {wanted.channels} channels")
    return own


def _require_whole(image: Image.Image, data: bytes) -> None:
    """That a PNG has all of its chunks, and each its checksum: Pillow is content when it has the pixels."""
    if image.format == "PNG":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()


def _kind(image: Image.Image, data: bytes) -> str:
    """The mode, and what makes it more than that."""
    if _sixteen_bit(image, data):
        return f"{image.mode} with 16 bits"
    return f"{image.mode} with transparency" if image.has_transparency_data else image.mode


def _sixteen_bit(image: Image.Image, data: bytes) -> bool:
    """Pillow gives the high bytes of a 16-bit colour PNG as if there were no others."""
    return image.mode.startswith("I") or (image.format == "PNG" and data[PNG_BIT_DEPTH] == 16)


def _pixels(image: Image.Image, mode: str) -> Pixels:
    """[C, H, W]; of sixteen bits the high byte, as Pillow has it for colours."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode != mode:
        image = image.convert("RGB").convert(mode)  # by way of RGB, which every mode has a way to
    pixels = np.asarray(image)
    return pixels[np.newaxis] if mode == "L" else np.ascontiguousarray(pixels.transpose(2, 0, 1))
