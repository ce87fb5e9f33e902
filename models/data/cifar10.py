"""CIFAR-10, in torchvision's form or as lossless sheets.

A folder of sheets holds one WebP per batch with 100 x 100 images of 32 x 32 (image i is the block (i // 100, i % 100)),
`labels.npz`, and a `MANIFEST.json` with the sha256 of the official binary files, which the sheets must reproduce.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from torch import Tensor

from models.data.augmentation import crops_and_flips
from models.data.images import Images, Pixels, reading
from models.data.npz import arrays_of
from models.errors import DataError
from models.selection import Selection

TRAIN_SHEETS = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST_SHEETS = ("test_batch",)


class Cifar10:
    """50,000 training and 10,000 test images of 3 x 32 x 32 in ten classes."""

    name = "cifar10"
    files = "MANIFEST.json (sheets) or cifar-10-batches-py (torchvision)"
    architecture = "cifar-resnet20"
    holdout = Selection("1::20")

    def recognises(self, folder: Path) -> bool:
        return (folder / "MANIFEST.json").is_file() or (folder / "cifar-10-batches-py").is_dir()

    def load(self, folder: Path, *, train: bool) -> Images:
        sheets = (folder / "MANIFEST.json").is_file()
        return _from_sheets(folder, train=train) if sheets else _from_torchvision(folder, train=train)

    def augment(self, pixels: Tensor) -> Tensor:
        return crops_and_flips(pixels)


def _from_sheets(folder: Path, *, train: bool) -> Images:
    sheets = TRAIN_SHEETS if train else TEST_SHEETS
    with reading(folder / "MANIFEST.json") as path:
        manifest = json.loads(path.read_text())
        classes, digests = tuple(manifest["classes"]), dict(manifest["sha256_of_official_binary_files"])
    with reading(folder / "labels.npz") as path:
        labels = arrays_of(path)["train" if train else "test"].astype(np.int64)
    batches = []
    for sheet in sheets:
        with reading(folder / f"{sheet}.webp") as path:
            batches.append(_sheet(path))
    images = Images("cifar10-train" if train else "cifar10-test", np.concatenate(batches), labels, classes)
    for i, sheet in enumerate(sheets):
        part = images.pick(slice(i * 10_000, (i + 1) * 10_000))
        _check_against_official(folder / f"{sheet}.webp", part, digests.get(f"{sheet}.bin"))
    return images


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
    from smoothcert.engine.vision import torchvision

    try:  # torchvision compares every file with its published digest before it reads it
        data = torchvision().datasets.CIFAR10(root=str(folder), train=train, download=False)
    except (RuntimeError, OSError) as error:
        detail = str(error).partition(" You can use")[0]  # torchvision recommends an option that we do not have
        raise DataError(f"{folder}: {detail}") from error
    pixels = np.ascontiguousarray(np.asarray(data.data).transpose(0, 3, 1, 2))
    labels = np.asarray(data.targets, np.int64)
    return Images("cifar10-train" if train else "cifar10-test", pixels, labels, tuple(data.classes))
