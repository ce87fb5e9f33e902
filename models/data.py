"""Labelled images on disk: CIFAR-10 as torchvision keeps it, or as lossless sheets.

A sheet folder holds one WebP per batch with 100 x 100 images of 32 x 32 (image i is block (i // 100, i % 100)),
`labels.npz` and a `MANIFEST.json` with the sha256 of the official binary files, which the sheets must reproduce.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.errors import DataError

Pixels = npt.NDArray[np.uint8]
TRAIN_SHEETS = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST_SHEETS = ("test_batch",)


@dataclass(frozen=True)
class Images:
    """`pixels` uint8 [N, C, H, W], `labels` int64 [N], and the place of each image in the set it came from."""

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
    raise DataError(f"{folder}: neither MANIFEST.json (sheets) nor cifar-10-batches-py (torchvision) is here")


def _from_sheets(folder: Path, *, train: bool) -> Images:
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    sheets = TRAIN_SHEETS if train else TEST_SHEETS
    try:
        labels = np.load(folder / "labels.npz")["train" if train else "test"].astype(np.int64)
        batches = [_sheet(folder / f"{sheet}.webp") for sheet in sheets]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: {error}") from error
    pixels = np.concatenate(batches)
    images = Images("cifar10-train" if train else "cifar10-test", pixels, labels, tuple(manifest["classes"]))
    for i, sheet in enumerate(sheets):
        _check_against_official(folder, sheet, images.pick(slice(i * 10_000, (i + 1) * 10_000)), manifest)
    return images


def _sheet(path: Path) -> Pixels:
    from PIL import Image

    with Image.open(path) as sheet:
        blocks = np.asarray(sheet.convert("RGB")).reshape(100, 32, 100, 32, 3)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 1, 3).reshape(10_000, 3, 32, 32))


def _check_against_official(folder: Path, sheet: str, batch: Images, manifest: dict[str, Any]) -> None:
    rows = np.concatenate([batch.labels.astype(np.uint8)[:, None], batch.pixels.reshape(len(batch), -1)], axis=1)
    seen = hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
    wanted = manifest["sha256_of_official_binary_files"][f"{sheet}.bin"]
    if seen != wanted:
        raise DataError(f"{folder / sheet}.webp: pixels and labels have sha256 {seen}, the official file {wanted}")


def _from_torchvision(folder: Path, *, train: bool) -> Images:
    from models.vision import torchvision

    try:  # torchvision compares every file with its published digest before it reads it
        data = torchvision().datasets.CIFAR10(root=str(folder), train=train, download=False)
    except (RuntimeError, OSError) as error:
        raise DataError(f"{folder}: {error}") from error
    pixels = np.ascontiguousarray(np.asarray(data.data).transpose(0, 3, 1, 2))
    labels = np.asarray(data.targets, np.int64)
    return Images("cifar10-train" if train else "cifar10-test", pixels, labels, tuple(data.classes))
