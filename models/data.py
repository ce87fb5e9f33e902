"""Labelled images on disk: CIFAR-10 in torchvision's form or as lossless sheets, other sheets, and npz files.

A folder of CIFAR-10 sheets holds one WebP per batch with 100 x 100 images of 32 x 32 (image i is the block
(i // 100, i % 100)), `labels.npz`, and a `MANIFEST.json` with the sha256 of the official binary files, which the
sheets must reproduce.

Any other sheet is a picture with images side by side, row after row, and a JSON file beside it:
`{"sheet", "name", "shape": [C, H, W], "labels", "indices", "classes", "sha256"}`, with the sha256 over the pixels.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from models.errors import DataError

Pixels = npt.NDArray[np.uint8]
TRAIN_SHEETS = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST_SHEETS = ("test_batch",)
DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error)
"""The exceptions of the readers of JSON, npz and pictures for a file that is missing, truncated or malformed."""


@dataclass(frozen=True)
class Images:
    """`pixels` uint8 [N, C, H, W], `labels` int64 [N], and `indices` [N], the places in the original data set."""

    name: str
    pixels: Pixels
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    indices: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.pixels) != len(self.labels):
            raise DataError(f"{self.name}: {len(self.pixels)} images but {len(self.labels)} labels")
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            seen = f"{self.labels.min()}..{self.labels.max()}"
            raise DataError(f"{self.name}: labels {seen} outside 0..{len(self.classes) - 1}")
        if not len(self.indices):
            object.__setattr__(self, "indices", np.arange(len(self.labels), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, indices: npt.ArrayLike | slice) -> Images:
        """The images at these places, in this order."""
        chosen = indices if isinstance(indices, slice) else np.asarray(indices)
        return Images(self.name, self.pixels[chosen], self.labels[chosen], self.classes, self.indices[chosen])

    @cached_property
    def digest(self) -> str:
        """sha256 over shape, pixels and labels."""
        sha = hashlib.sha256(repr(self.pixels.shape).encode())
        sha.update(np.ascontiguousarray(self.pixels).data)
        sha.update(np.ascontiguousarray(self.labels).data)
        return sha.hexdigest()


def load_cifar10(folder: Path, *, train: bool) -> Images:
    """All training or all test images of CIFAR-10, in the original order."""
    if (folder / "MANIFEST.json").is_file():
        return _from_sheets(folder, train=train)
    if (folder / "cifar-10-batches-py").is_dir():
        return _from_torchvision(folder, train=train)
    raise DataError(f"{folder}: holds neither MANIFEST.json (sheets) nor cifar-10-batches-py (torchvision)")


def load_images(path: Path, *, train: bool = False) -> Images:
    """Images in any form: a CIFAR-10 folder, the JSON file of a sheet, or an npz with `images` and `labels`."""
    if path.is_dir():
        return load_cifar10(path, train=train)
    if path.suffix not in (".json", ".npz"):
        raise DataError(f"{path}: is neither a folder nor the .json of a sheet nor an .npz file")
    try:
        return _from_own_sheet(path) if path.suffix == ".json" else _from_npz(path)
    except DataError:
        raise
    except DAMAGED as error:
        raise DataError(f"{path}: {error!r}") from error


def _from_own_sheet(path: Path) -> Images:
    from PIL import Image

    index = json.loads(path.read_text())
    channels, height, width = index["shape"]
    # The picture is [rows, height, columns, width, channels]; each tile of it is an image.
    with Image.open(path.with_name(index["sheet"])) as sheet:
        rows = np.asarray(sheet.convert("RGB" if channels == 3 else "L")).reshape(
            -1, height, sheet.width // width, width, channels
        )
    tiles = rows.transpose(0, 2, 4, 1, 3).reshape(-1, channels, height, width)
    pixels = np.ascontiguousarray(tiles[: len(index["labels"])])  # the last row may have empty tiles
    if (seen := hashlib.sha256(pixels.data).hexdigest()) != index["sha256"]:
        raise DataError(f"{path}: the pixels have sha256 {seen}, not {index['sha256']}")
    labels, indices = np.array(index["labels"], np.int64), np.array(index["indices"], np.int64)
    return Images(index["name"], pixels, labels, tuple(index["classes"]), indices)


def write_sheet(images: Images, path: Path, *, columns: int = 10) -> None:
    """Write images as a lossless sheet (PNG) with its JSON file at `path`."""
    from PIL import Image

    count, channels, height, width = images.pixels.shape
    full = np.zeros((-(-count // columns) * columns, channels, height, width), np.uint8)
    full[:count] = images.pixels
    rows = full.reshape(-1, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    picture = rows.reshape(-1, columns * width, channels)
    sheet = path.with_suffix(".png")
    Image.fromarray(picture if channels == 3 else picture[..., 0]).save(sheet, optimize=True)
    index = {
        "sheet": sheet.name,
        "name": images.name,
        "shape": [channels, height, width],
        "classes": list(images.classes),
        "sha256": hashlib.sha256(np.ascontiguousarray(images.pixels).data).hexdigest(),
        "indices": images.indices.tolist(),
        "labels": images.labels.tolist(),
    }
    path.write_text(json.dumps(index, indent=1) + "\n")


def _from_npz(path: Path) -> Images:
    arrays = _arrays(path)
    pixels, labels = arrays["images"], arrays["labels"].astype(np.int64)
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise DataError(f"{path}: images must be uint8 [N, H, W] or [N, H, W, C], got {pixels.dtype} {pixels.shape}")
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    classes = tuple(map(str, range(int(labels.max()) + 1)))
    return Images(path.stem, np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels, classes)


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an npz file. The file is opened here because numpy does not close a damaged one."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _from_sheets(folder: Path, *, train: bool) -> Images:
    sheets = TRAIN_SHEETS if train else TEST_SHEETS
    with _reading(folder / "MANIFEST.json") as path:
        manifest = json.loads(path.read_text())
        classes, digests = tuple(manifest["classes"]), dict(manifest["sha256_of_official_binary_files"])
    with _reading(folder / "labels.npz") as path:
        labels = _arrays(path)["train" if train else "test"].astype(np.int64)
    batches = []
    for sheet in sheets:
        with _reading(folder / f"{sheet}.webp") as path:
            batches.append(_sheet(path))
    images = Images("cifar10-train" if train else "cifar10-test", np.concatenate(batches), labels, classes)
    for i, sheet in enumerate(sheets):
        part = images.pick(slice(i * 10_000, (i + 1) * 10_000))
        _check_against_official(folder / f"{sheet}.webp", part, digests.get(f"{sheet}.bin"))
    return images


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Name the file in every error about a missing or damaged one."""
    try:
        yield path
    except DAMAGED as error:
        raise DataError(f"{path}: {error!r}") from error


def _sheet(path: Path) -> Pixels:
    from PIL import Image

    with Image.open(path) as sheet:
        blocks = np.asarray(sheet.convert("RGB")).reshape(100, 32, 100, 32, 3)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 1, 3).reshape(10_000, 3, 32, 32))


def _check_against_official(path: Path, batch: Images, expected: str | None) -> None:
    # The official binary file has one row for each image: the label, then the pixels.
    rows = np.concatenate([batch.labels.astype(np.uint8)[:, None], batch.pixels.reshape(len(batch), -1)], axis=1)
    seen = hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
    if seen != expected:
        raise DataError(f"{path}: pixels and labels have sha256 {seen}, the official file {expected}")


def _from_torchvision(folder: Path, *, train: bool) -> Images:
    from models.vision import torchvision

    try:  # torchvision compares every file with its published digest before it reads it
        data = torchvision().datasets.CIFAR10(root=str(folder), train=train, download=False)
    except (RuntimeError, OSError) as error:
        detail = str(error).partition(" You can use")[0]  # torchvision recommends an option that we do not have
        raise DataError(f"{folder}: {detail}") from error
    pixels = np.ascontiguousarray(np.asarray(data.data).transpose(0, 3, 1, 2))
    labels = np.asarray(data.targets, np.int64)
    return Images("cifar10-train" if train else "cifar10-test", pixels, labels, tuple(data.classes))
