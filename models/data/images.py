"""Labelled images, and how damaged files are named."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from models.errors import DataError

Pixels = npt.NDArray[np.uint8]
_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error)
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

    @property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] of each image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

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


@contextmanager
def reading(path: Path) -> Iterator[Path]:
    """Name the file in every error about a missing or damaged one."""
    try:
        yield path
    except DataError:
        raise
    except _DAMAGED as error:
        raise DataError(f"{path}: {error!r}") from error
