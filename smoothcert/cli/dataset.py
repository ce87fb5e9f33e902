"""A labelled data set, as `smoothcert evaluate` and `smoothcert diagnose` take it.

FOLDER          images in subfolders, each named after its class; in the order of their names
FOLDER, CSV     images that the lines `file,label` of the CSV file name, in their order
NPZ             the arrays `images` and `labels`
NPZ, NPY        the array `images`, and the labels from the NPY file

A label is the name of a class of the ensemble, or its number.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

from smoothcert.errors import DomainError, SmoothcertError
from smoothcert.labels import class_number

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
PLAIN = {"images": "np.stack(images)", "labels": "np.array(labels, dtype=str)"}
"""How an array is made that holds no Python objects."""


class DataSetError(SmoothcertError):
    """A data set that cannot be read, or has no labels."""


@dataclass(frozen=True)
class LabelledImages:
    """Images, each with a name and the number of its class."""

    names: Sequence[str]
    images: Sequence[Any]
    labels: Sequence[int]

    def spread(self, most: int) -> LabelledImages:
        """At most this many of the images, evenly spread over the data set, which may be sorted by class."""
        kept = min(most, len(self.labels))
        places = [len(self.labels) * i // kept for i in range(kept)]
        return LabelledImages(
            [self.names[i] for i in places], [self.images[i] for i in places], [self.labels[i] for i in places]
        )


def read(
    source: Path, labels: Path | None, classes: Sequence[str], *, apart_from: Path | None = None
) -> LabelledImages:
    """Read a data set whose labels are names or numbers of `classes`; the folder `apart_from` is left out."""
    if source.is_dir():
        named = _by_file(labels) if labels else _by_folder(source, apart_from)
        names, numbers = [name for name, _ in named], [_number(label, classes, name) for name, label in named]
        found = LabelledImages(names, [source / name for name in names], numbers)
    elif is_zipfile(source):
        found = _arrays(source, labels, classes)
    else:
        accepted = "a folder of images, or a .npz file with the arrays images and labels"
        seen = "there is no such file or folder" if not source.exists() else "the file has another format"
        raise DataSetError(f"{source}: {seen}; a data set is {accepted}")
    if not found.names and labels:
        raise DataSetError(f"{labels} has no labels")
    if not found.names:
        kinds = f" ({', '.join(SUFFIXES)})" if source.is_dir() else ""
        raise DataSetError(f"{source} has no images{kinds}")
    return found


def _by_folder(source: Path, apart_from: Path | None) -> list[tuple[str, str]]:
    paths = sorted(path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES and path.name[0] != ".")
    if apart_from:
        paths = [path for path in paths if not path.resolve().is_relative_to(apart_from.resolve())]
    if loose := [path for path in paths if path.parent == source]:
        remedy = "put it into a subfolder named after its class, or give --labels FILE with lines of file,label"
        raise DataSetError(f"{loose[0]} has no label: {remedy}")
    inside = [path.relative_to(source) for path in paths]
    return [(str(path), path.parts[0]) for path in inside]


def _by_file(labels: Path) -> list[tuple[str, str]]:
    try:
        with labels.open(newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), 1) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataSetError(f"cannot read the labels in {labels}: {error}") from error
    if rows and rows[0][1] == ["file", "label"]:
        del rows[0]
    for number, row in rows:
        if len(row) != 2:
            raise DataSetError(f"{labels}, line {number} must be file,label, got {','.join(row)!r}")
    return [(file, label.strip()) for _, (file, label) in rows]


def _number(label: str, classes: Sequence[str], place: object) -> int:
    try:
        return class_number(label, classes)
    except DomainError as error:
        raise DataSetError(f"{place}: {error}") from None


def _arrays(source: Path, labels: Path | None, classes: Sequence[str]) -> LabelledImages:
    with _load(source) as arrays:
        images = _array(arrays, "images", source)
        given = (
            _labels(labels) if labels else _array(arrays, "labels", source, "; --labels FILE.npy names a file of them")
        )
    if images.ndim not in (3, 4):
        accepted = "[N, H, W, C], [N, C, H, W] or [N, H, W]"
        raise DataSetError(f"{source}: images must have the shape {accepted}, got {list(images.shape)}")
    if given.shape != images.shape[:1]:
        expected = f"a label for each of the {len(images)} images"
        raise DataSetError(f"{labels or source}: there must be {expected}, got the shape {list(given.shape)}")
    names = [str(place) for place in range(len(images))]
    numbers = [_number(str(label), classes, f"image {place}") for place, label in enumerate(given.tolist())]
    return LabelledImages(names, images, numbers)


def _labels(path: Path) -> Any:
    found = _load(path)
    if hasattr(found, "files"):
        found.close()
        raise DataSetError(f"{path} has several arrays; the labels must be a .npy file")
    return found


def _load(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a file of numpy arrays"
        raise DataSetError(f"cannot read {path}: {_of_objects(error, 'labels') or reason}") from error


def _of_objects(error: Exception, name: str) -> str | None:
    """What to do if an array holds Python objects, which only pickle could read; None if another thing is wrong."""
    if "Object arrays" not in str(error):  # numpy has no error of its own for it
        return None
    return f"it holds Python objects, which are never read; save {PLAIN[name]} instead"


def _array(arrays: Any, name: str, source: Path, remedy: str = "") -> Any:
    try:
        found = arrays[name]
    except KeyError:
        seen = ", ".join(arrays.files) or "none"
        raise DataSetError(f"{source} has no array {name!r}, but {seen}{remedy}") from None
    except (OSError, ValueError, BadZipFile) as error:
        reason = _of_objects(error, name) or error
        raise DataSetError(f"{source}: the array {name!r} cannot be read: {reason}") from error
    if not hasattr(found, "ndim"):
        raise DataSetError(f"{source}: {name!r} is not a numpy array")
    return found
