"""npz files with the arrays `images`, uint8 [N, H, W] or [N, H, W, C], and `labels` [N]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.data.images import Images
from models.errors import DataError


def read_npz(path: Path) -> Images:
    arrays = arrays_of(path)
    if missing := [name for name in ("images", "labels") if name not in arrays]:
        raise DataError(f"{path}: there is no array `{missing[0]}`; it must have `images` and `labels`")
    pixels, labels = arrays["images"], arrays["labels"].astype(np.int64)
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise DataError(f"{path}: images must be uint8 [N, H, W] or [N, H, W, C], got {pixels.dtype} {pixels.shape}")
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    classes = tuple(map(str, range(int(labels.max()) + 1)))
    return Images(path.stem, np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels, classes)


def arrays_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an npz file. The file is opened here because numpy does not close a damaged one."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)
