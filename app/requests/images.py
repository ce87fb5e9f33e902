"""Decodes the images of a request into the one array of pixels that is certified.

Nothing is changed silently. An image is refused if its size or channels differ from what the ensemble takes, or if it
has transparency, a palette, sixteen bits or an orientation tag; the error says what was seen and what is accepted. The
field `convert` of a request allows changes of colours, and `resize` another size; a certificate states the latter.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import PIL

# The plugins are imported so that they are registered: Pillow then tries no other format.
from PIL import Image, JpegImagePlugin, PngImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401

from app.http.errors import invalid
from app.http.npy import Pixels
from smoothcert.errors import DomainError, shown
from smoothcert.request import TensorImage
from smoothcert.resizing import Resize, ResizeRecord

FORMATS = ("PNG", "JPEG", "WEBP")
MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for each number of channels."""
CONVERSIONS = {"rgb": "RGB", "grey": "L"}
"""Pillow's mode for each value of `convert`."""
ORIENTATION, UPRIGHT = 0x0112, 1
"""The EXIF tag of the orientation, and its value for an image that needs no rotation."""
PNG_BIT_DEPTH = 24
"""The offset of the bit depth in a PNG file."""
PNG, JPEG, SCAN = b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xda"
"""The first bytes of a PNG file, of a JPEG file, and of a scan in a JPEG file."""
MOST_PIECES = 100
"""The number of chunks, segments or scans that any file may have; a decoder takes time for each, even if empty."""
PIECE = 2048
"""Bytes of a file for each piece beyond MOST_PIECES; encoders write larger ones."""

SentImage = str | bytes | TensorImage | Pixels
"""An image as it was sent: base64 of a file, a file, a tensor, or an array."""


@dataclass(frozen=True)
class ImageSpec:
    """The images that an ensemble takes, and what may be done to an image to make it one."""

    channels: int
    height: int
    width: int
    convert: Literal["none", "rgb", "grey"]
    most_pixels: int
    """The size up to which the header of a file is believed at all."""
    resize: Resize | None = None


class UnusableImageError(ValueError):
    """An image that cannot be certified as it is."""


def decode(images: Sequence[SentImage] | Pixels, spec: ImageSpec) -> Pixels:
    """The pixels [N, C, H, W]: uint8 if every image has 8 bits, otherwise float32 in [0, 1].

    ProblemError names the image that cannot be used.
    """
    decoded = np.empty((len(images), spec.channels, spec.height, spec.width), _dtype(images))
    for index, image in enumerate(images):
        try:
            pixels = _decoded(image, spec, index)
        except UnusableImageError as error:
            raise invalid(f"images.{index}", str(error), code="invalid_image") from None
        decoded[index] = pixels if decoded.dtype == np.uint8 else _as_float32(pixels)
    return decoded


def with_sources(images: Sequence[SentImage] | Pixels, spec: ImageSpec) -> ImageSpec:
    """The specification with the size of every image, by the header of its file, where images are to be resized.

    ProblemError names the image that cannot be.
    """
    if spec.resize is None:
        return spec
    sources = []
    for index, image in enumerate(images):
        try:
            sources.append(_source(image, spec))
        except UnusableImageError as error:
            raise invalid(f"images.{index}", str(error), code="invalid_image") from None
    by = f"Pillow {PIL.__version__}"
    return replace(spec, resize=spec.resize.model_copy(update={"sources": tuple(sources), "by": by}))


def source_bytes(spec: ImageSpec) -> int:
    """The bytes that the largest image takes before it is resized; they are decoded one by one."""
    sources = spec.resize.sources if spec.resize else None
    return 2 * spec.channels * max((width * height for width, height in sources or ()), default=0)


def _source(image: SentImage, spec: ImageSpec) -> tuple[int, int]:
    """Width and height of a file, which must not be too large to be decoded or too small to be cut."""
    if not isinstance(image, str | bytes):
        raise UnusableImageError("is an array, and only files are resized: send a file, or an array of the right shape")
    try:
        with Image.open(io.BytesIO(_from_base64(image) if isinstance(image, str) else image), formats=FORMATS) as file:
            size = file.size
    except UnusableImageError:
        raise
    except Exception as error:  # `_from_file` finds better words for a damaged file
        raise UnusableImageError(f"cannot be decoded as PNG, JPEG or WebP: {f'{error}'[:200]}") from None
    _require_decodable(size, spec)
    if (objection := next(_size_objections(size, spec), None)) is not None:
        raise UnusableImageError(objection)
    return size


def _require_decodable(size: tuple[int, int], spec: ImageSpec) -> None:
    """Refuse a file that is too large to be decoded."""
    width, height = size
    if width * height > spec.most_pixels:
        raise UnusableImageError(f"has {width:,} x {height:,} pixels, which is more than {spec.most_pixels:,}")


def _size_objections(size: tuple[int, int], spec: ImageSpec) -> Iterator[str]:
    """Why an image of this size cannot be used."""
    if spec.resize is not None:
        try:
            spec.resize.box(size, (spec.width, spec.height))
        except DomainError as error:
            yield str(error)
    elif size != (spec.width, spec.height):
        seen, wanted = f"{size[0]} x {size[1]} (width x height)", f"{spec.width} x {spec.height}"
        yield f"is {seen}, wanted {wanted}; `resize`: 'cover' changes that"


def decoded_bytes(images: Sequence[SentImage] | Pixels, spec: ImageSpec) -> int:
    """The bytes of the array that `decode` returns; files may be much smaller."""
    return len(images) * spec.channels * spec.height * spec.width * _dtype(images).itemsize


def are_eight_bit(images: Sequence[SentImage] | Pixels) -> bool:
    """Whether every image is a file or an array of bytes; floating-point values are not, even if they are k/255."""
    if isinstance(images, np.ndarray):
        return images.dtype == np.uint8
    return all(isinstance(image, str | bytes) or image.dtype == "uint8" for image in images)


def _dtype(images: Sequence[SentImage] | Pixels) -> np.dtype[Any]:
    """The type of the decoded array: uint8 unless some image has floating-point values."""
    return np.dtype(np.uint8 if are_eight_bit(images) else np.float32)


def _decoded(image: SentImage, spec: ImageSpec, index: int) -> Pixels:
    match image:
        case str():
            return _from_file(_from_base64(image), spec, index)
        case bytes():
            return _from_file(image, spec, index)
        case TensorImage():
            return _from_array(_from_tensor(image), spec)
        case _:
            return _from_array(image, spec)


def _as_float32(pixels: Pixels) -> Pixels:
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)  # as the workers do it
    return pixels.astype(np.float32)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnusableImageError(f"must be base64 ({error}), got {shown(text)}") from None


# --- arrays


def _from_tensor(tensor: TensorImage) -> Pixels:
    data, dtype = _from_base64(tensor.data), np.dtype(tensor.dtype).newbyteorder("<")
    if len(data) != (needed := math.prod(tensor.shape) * dtype.itemsize):
        raise UnusableImageError(
            f"shape {list(tensor.shape)} of {tensor.dtype} takes {needed:,} bytes, got {len(data):,}"
        )
    return np.frombuffer(data, dtype).reshape(tensor.shape)


def _from_array(array: Pixels, spec: ImageSpec) -> Pixels:
    pixels = np.ascontiguousarray(_channels_first(array, spec))
    if pixels.dtype == np.uint8:
        return pixels
    if not np.isfinite(pixels).all():
        raise UnusableImageError("has values that are NaN or infinite, wanted numbers from 0 to 1")
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        raise UnusableImageError(f"has values from {low:g} to {high:g}, wanted 0 to 1 (or uint8 from 0 to 255)")
    return pixels


def _channels_first(array: Pixels, spec: ImageSpec) -> Pixels:
    first = (spec.channels, spec.height, spec.width)
    last = (spec.height, spec.width, spec.channels)
    if array.shape == first == last and spec.channels > 1:
        raise UnusableImageError(
            f"has shape {list(first)}, which does not determine the order of its axes: send a file"
        )
    if array.shape == first:
        return array
    if array.shape == last:
        return array.transpose(2, 0, 1)
    raise UnusableImageError(f"has shape {list(array.shape)}, wanted {list(first)} (C, H, W) or {list(last)} (H, W, C)")


# --- files

KINDS = {"L": "grey", "LA": "grey", "1": "black and white", "P": "P (with a palette)"}
"""Words for Pillow's modes that do not speak for themselves; those of 16 bits are grey."""


def _from_file(data: bytes, spec: ImageSpec, index: int) -> Pixels:
    """The pixels of a file, the `index`th; it is decoded only after its header has passed every check."""
    _require_few_pieces(data)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            mode = _mode(image, data, spec)
            _require_whole(image, data)
            record = spec.resize.record(index, (spec.width, spec.height)) if spec.resize else None
            return _pixels(image, mode, record)
    except UnusableImageError:
        raise
    except UnidentifiedImageError:
        raise UnusableImageError(f"cannot be decoded as PNG, JPEG or WebP; {_beginning(data)}") from None
    except Exception as error:  # decoders raise many types for damaged files
        raise UnusableImageError(f"cannot be decoded as PNG, JPEG or WebP: {f'{error}'[:200]}") from None


def _beginning(data: bytes) -> str:
    """What a file that is not an image begins with, in words."""
    if not data:
        return "it is empty"
    first = data[:8]
    text = first.decode("ascii", "replace")
    return (
        f"it begins with {text!r}"
        if text.isprintable() and first.isascii()
        else f"its first bytes are {first.hex(' ')}"
    )


def _require_few_pieces(data: bytes) -> None:
    """Refuse a file that consists of very many pieces."""
    few = MOST_PIECES + len(data) // PIECE
    if sum(1 for _ in islice(_pieces(data), few + 1)) > few:
        raise UnusableImageError(
            f"has {len(data):,} bytes in more than {few:,} chunks, segments or scans; at most {few:,} are accepted"
        )


def _pieces(data: bytes) -> Iterator[int]:
    """The offsets of the chunks of a PNG, or of the segments and scans of a JPEG; those of a WebP cost no time."""
    if data.startswith(PNG):
        offset = len(PNG)
        while offset + 4 <= len(data):
            yield offset
            offset += 12 + int.from_bytes(data[offset : offset + 4])  # length, type and checksum have 4 bytes each
    elif data.startswith(JPEG):
        offset = len(JPEG)
        # Before the first scan: a segment is a marker and its length; a byte that is not a marker counts as a piece.
        while offset + 4 <= len(data) and not data.startswith(SCAN, offset):
            yield offset
            marked = data[offset] == 0xFF and 0xC0 <= data[offset + 1] < 0xFF
            offset += 2 + int.from_bytes(data[offset + 2 : offset + 4]) if marked else 1
        # From there on: the scans, which are found by their marker.
        while (offset := data.find(SCAN, offset)) >= 0:
            yield offset
            offset += len(SCAN)


def _mode(image: Image.Image, data: bytes, spec: ImageSpec) -> str:
    """The mode in which to read the pixels; UnusableImageError if the header shows that the image cannot be used."""
    if getattr(image, "n_frames", 1) > 1:
        raise UnusableImageError(f"has {getattr(image, 'n_frames', 2)} frames, wanted one still image")
    _require_decodable(image.size, spec)
    if (own := MODES.get(spec.channels)) is None:
        raise UnusableImageError(f"is a file, but the ensemble takes {spec.channels} channels: send a tensor")
    if objections := [*_size_objections(image.size, spec), *_mode_objections(image, data, own, spec)]:
        raise UnusableImageError(". It ".join(objections))  # all at once: each would cost another request
    return own


def _mode_objections(image: Image.Image, data: bytes, own: str, spec: ImageSpec) -> Iterator[str]:
    """Why an image cannot be read in a mode of the ensemble's own."""
    if (turned := image.getexif().get(ORIENTATION, UPRIGHT)) != UPRIGHT:
        yield f"has EXIF orientation {turned!r}; rotate its pixels and remove the tag"
    if spec.convert == "none" and (kind := _kind(image, data)) != (wanted := KINDS.get(own, own)):
        way = "rgb" if own == "RGB" else "grey"
        yield f"is {kind}, wanted {wanted} with 8 bits; `convert`: {way!r} changes that"
    if spec.convert != "none" and CONVERSIONS[spec.convert] != own:
        yield f"cannot be converted to {spec.convert!r}: the ensemble takes {spec.channels} channels"


def _require_whole(image: Image.Image, data: bytes) -> None:
    """Refuse a PNG with missing chunks or wrong checksums; Pillow by itself stops when it has the pixels."""
    if image.format == "PNG":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()


def _kind(image: Image.Image, data: bytes) -> str:
    """The mode of an image for people, with what the mode does not say."""
    mode = "grey" if image.mode.startswith("I") else KINDS.get(image.mode, image.mode)
    if _sixteen_bit(image, data):
        return f"{mode} with 16 bits"
    return f"{mode} with transparency" if image.has_transparency_data else mode


def _sixteen_bit(image: Image.Image, data: bytes) -> bool:
    """Whether an image has 16 bits per channel; of a colour PNG, Pillow silently drops the low bytes."""
    return image.mode.startswith("I") or (image.format == "PNG" and data[PNG_BIT_DEPTH] == 16)


def _pixels(image: Image.Image, mode: str, resized: ResizeRecord | None) -> Pixels:
    """The pixels [C, H, W], resized last; of sixteen bits the high byte, as Pillow does for colours."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode != mode:
        image = image.convert("RGB").convert(mode)  # by way of RGB, to which every mode can be converted
    pixels = np.asarray(image if resized is None else resized.apply(image))
    return pixels[np.newaxis] if mode == "L" else np.ascontiguousarray(pixels.transpose(2, 0, 1))
