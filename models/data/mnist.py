"""MNIST, in torchvision's form or as two npz files.

`mnist_train.npz` and `mnist_test.npz` have the arrays `images`, uint8 [N, 28, 28], and `labels` [N].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from models.data.augmentation import unchanged
from models.data.images import Images, Pixels, reading
from models.data.npz import arrays_of
from models.errors import DataError
from models.selection import Selection

CLASSES = tuple("0123456789")


class Mnist:
    """60,000 training and 10,000 test digits of 1 x 28 x 28. A mirrored or cropped digit may be another or none."""

    name = "mnist"
    files = "mnist_train.npz and mnist_test.npz, or MNIST/raw (torchvision)"
    architecture = "mnist-lenet"
    holdout = Selection("1::5")

    def recognises(self, folder: Path) -> bool:
        return (folder / "mnist_test.npz").is_file() or (folder / "MNIST" / "raw").is_dir()

    def load(self, folder: Path, *, train: bool) -> Images:
        name = "mnist-train" if train else "mnist-test"
        path = folder / f"{name.replace('-', '_')}.npz"
        if path.is_file():
            with reading(path):
                arrays = arrays_of(path)
                pixels, labels = arrays["images"], arrays["labels"]
        else:
            path = folder
            pixels, labels = _from_torchvision(folder, train=train)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (28, 28):
            raise DataError(f"{path}: images must be uint8 [N, 28, 28], got {pixels.dtype} {pixels.shape}")
        return Images(name, np.ascontiguousarray(pixels[:, None]), labels.astype(np.int64), CLASSES)

    def augment(self, pixels: Tensor) -> Tensor:
        return unchanged(pixels)


def _from_torchvision(folder: Path, *, train: bool) -> tuple[Pixels, Pixels]:
    from smoothcert.engine.vision import torchvision

    try:
        data = torchvision().datasets.MNIST(root=str(folder), train=train, download=False)
    except (RuntimeError, OSError, ValueError) as error:
        detail = str(error).partition(" You can use")[0]  # torchvision recommends an option that we do not have
        raise DataError(f"{folder}: {detail}") from error
    return np.asarray(data.data), np.asarray(data.targets)
