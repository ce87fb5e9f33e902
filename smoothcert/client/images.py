"""Images as callers have them, and as they are sent.

An image is a path (text or PathLike), an open PNG, JPEG or WebP file, its bytes, a PIL image, or an array: numpy,
torch, or anything that numpy can read; uint8, or floats from 0 to 1; [H, W, C], [C, H, W] or [H, W]. An array with a
further axis in front is several images. Nothing is resized, rescaled or rounded here. Neither PIL nor torch is
imported: a caller that passes one of their objects has imported them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.client.errors import ImageError

DTYPES = ("uint8", "float32", "float64")
"""The types of arrays that the service accepts."""

MOST_BYTES = 64_000_000
"""The most bytes of a file, which is read whole; the service accepts fewer by default."""

File = str | bytes | os.PathLike[str]
"""A path, or the bytes of a file."""
Image = Any
"""A file, a PIL image or an array; PIL's and torch's classes cannot be named without importing them."""
Several = list[Image] | tuple[Image, ...]


@dataclass(frozen=True)
class EncodedImage:
    """An image as JSON has it: base64 of a file, or a `TensorImage`."""

    sent: str | dict[str, Any]
    name: str = ""
    """The name of its file, if it has one."""

    @property
    def size(self) -> int:
        """About the bytes that are sent."""
        return len(self.sent if isinstance(self.sent, str) else self.sent["data"])

    def sha256(self) -> str:
        """The digest of the image as it is sent."""
        return hashlib.sha256(json.dumps(self.sent, sort_keys=True).encode()).hexdigest()


def is_single(images: Any) -> bool:
    """Whether this is one image rather than several."""
    if isinstance(images, str | bytes | bytearray | memoryview | os.PathLike) or _is_of("PIL", images):
        return True
    return len(images.shape) < 4 if _is_array(images) else _is_open_file(images)


def encode_all(images: Image | Iterable[Image]) -> list[EncodedImage]:
    """One image or several, ready to be sent."""
    return [encode(image) for image in each(images)]


def each(images: Image | Iterable[Image]) -> Iterator[Image]:
    """One image or several, one by one."""
    try:
        return iter([images] if is_single(images) else images)
    except TypeError:
        accepted = "a path, the bytes of a file, a PIL image, an array, or several of them"
        raise ImageError(f"an image must be {accepted}, got {type(images).__name__}") from None


def images_of(item: Any) -> Sequence[Image]:
    """The images of an item of a data set: an image, a batch of them, or those of a pair (images, labels)."""
    if isinstance(item, list | tuple):
        if len(item) == 2 and _is_labels(item[1], of=item[0]):
            return images_of(item[0])
        if len(item) == 1 and _is_array(item[0]):  # as a DataLoader of a TensorDataset without labels yields it
            return images_of(item[0])
        return item
    return [*item] if _is_array(item) and len(item.shape) == 4 else [item]


def _is_labels(value: Any, *, of: Image) -> bool:
    """Whether the second of a pair is a label or several; text beside a file is a file, too."""
    if isinstance(value, list | tuple):
        return all(isinstance(each, int | str) for each in value)
    if isinstance(value, str):
        return _is_array(of) or _is_of("PIL", of)
    return isinstance(value, int) or (_is_array(value) and len(value.shape) < 2)


def encode(image: Image) -> EncodedImage:
    """One image, ready to be sent; ImageError if it cannot be."""
    if isinstance(image, str | os.PathLike):
        return EncodedImage(_text(_content(Path(image))), str(image))
    if isinstance(image, bytes | bytearray | memoryview):
        return EncodedImage(_text(bytes(image)))
    if _is_of("PIL", image):
        return EncodedImage(_text(_png(image)))
    if _is_array(image):
        return EncodedImage(_tensor(_array(image)))
    if _is_open_file(image):
        name = str(getattr(image, "name", type(image).__name__))
        return EncodedImage(_text(_rest(image, name)), name)
    accepted = "a path, the bytes of a file, a PIL image or an array"
    raise ImageError(f"an image must be {accepted}, got {type(image).__name__}")


def naming_files(detail: str, images: Sequence[EncodedImage]) -> str:
    """The detail of a problem with the name of the file after each `images.3`."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        name = images[number].name if number < len(images) else ""
        return f"{match[0]} ({name})" if name else match[0]

    return re.sub(r"\bimages\.(\d+)(?=:)", named, detail)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _content(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a device or a pipe may never end
            raise ImageError(f"the image {str(path)!r} is not a regular file")
        if found.st_size > MOST_BYTES:
            raise ImageError(
                f"the image {str(path)!r} has {found.st_size:,} bytes, more than the {MOST_BYTES:,} that are accepted"
            )
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"cannot read the image {str(path)!r}: {error.strerror or error}") from error
    if not content:
        raise ImageError(f"the image {str(path)!r} is an empty file")
    return content


def _rest(file: Any, name: str) -> bytes:
    """The rest of an open file."""
    try:
        content = file.read(MOST_BYTES + 1)
    except UnicodeDecodeError as error:
        content = error.reason
    except (OSError, ValueError) as error:
        raise ImageError(f"cannot read the image in the open file {name!r}: {error}") from error
    if not isinstance(content, bytes):
        seen = type(content).__name__
        raise ImageError(f"the open file {name!r} gives {seen} instead of bytes: open it with mode 'rb'")
    if not content:
        raise ImageError(f"the open file {name!r} is at its end, so there is no image to read")
    if len(content) > MOST_BYTES:
        raise ImageError(f"the image in the open file {name!r} has more than {MOST_BYTES:,} bytes")
    return content


def _is_of(package: str, value: object) -> bool:
    """Whether the class of a value, or one of its bases, belongs to the package."""
    return any(kind.__module__.partition(".")[0] == package for kind in type(value).__mro__)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and (hasattr(value, "__array__") or _is_of("torch", value))


def _is_open_file(value: object) -> bool:
    return hasattr(value, "read") and hasattr(value, "readable")


def _png(image: Any) -> bytes:
    """A PIL image as a lossless file. Its mode is kept: the field `convert` decides about it."""
    file = io.BytesIO()
    try:
        image.save(file, "PNG")
    except (OSError, ValueError, SystemError) as error:
        raise ImageError(f"cannot send a PIL image of mode {image.mode!r} and size {image.size}: {error}") from error
    return file.getvalue()


def _array(image: Any) -> npt.NDArray[Any]:
    """An array [C, H, W] or [H, W, C] of one of DTYPES."""
    if _is_of("torch", image):
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() and image.element_size() < 4 else image).numpy()
    array = np.asarray(image)
    if array.dtype == np.float16:
        array = array.astype(np.float32)  # float32 has all values of float16
    if array.dtype.name not in DTYPES:
        raise ImageError(
            f"an image has dtype {array.dtype.name}; it must be uint8 from 0 to 255, or floats from 0 to 1"
        )
    if array.ndim not in (2, 3):
        raise ImageError(f"an image has shape {list(array.shape)}; it must be [H, W, C], [C, H, W] or [H, W]")
    if not array.size:
        raise ImageError(f"an image has shape {list(array.shape)}; it must have at least one pixel")
    return array if array.ndim == 3 else array[:, :, np.newaxis]


def _tensor(array: npt.NDArray[Any]) -> dict[str, Any]:
    raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": _text(raw)}
