"""A data set with its labels, as `smoothcert evaluate` takes it.

FOLDER          images in subfolders, each named after its class; in the order of their names
FOLDER, CSV     images named by the lines `file,label` of the file of labels, in their order
NPZ             the arrays `images` and `labels`
NPZ, NPY        the array `images`, and the labels from a file of their own

A label is the name of a class of the ensemble, or its number.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

from smoothcert.errors import SmoothcertError

KINDS = (".png", ".jpg", ".jpeg", ".webp")


class DataSetError(SmoothcertError):
    """A data set that cannot be read, or has no labels."""


@dataclass(frozen=True)
class DataSet:
    """Images, each with a name and the number of its class."""

    names: Sequence[str]
    images: Sequence[Any]
    labels: Sequence[int]


def read(source: Path, labels: Path | None, classes: Sequence[str], *, apart_from: Path | None = None) -> DataSet:
    """The data set that the classes are those of; a folder within it may be no part of it."""
    if source.is_dir():
        named = _by_file(labels) if labels else _by_folder(source, apart_from)
        names, told = [name for name, _ in named], [_number(label, classes, name) for name, label in named]
        found = DataSet(names, [source / name for name in names], told)
    elif is_zipfile(source):
        found = _arrays(source, labels, classes)
    else:
        seen = "no such file or folder" if not source.exists() else "this is neither"
        raise DataSetError(f"{source}: {seen}; wanted a folder of images, or a .npz with the arrays images and labels")
    if not found.names and labels:
        raise DataSetError(f"{labels}: there are no labels in it")
    if not found.names:
        kinds = f" ({', '.join(KINDS)})" if source.is_dir() else ""
        raise DataSetError(f"{source}: there are no images{kinds} in it")
    return found


def _by_folder(source: Path, apart_from: Path | None) -> list[tuple[str, str]]:
    paths = sorted(path for path in source.rglob("*") if path.suffix.lower() in KINDS and path.name[0] != ".")
    if apart_from:
        paths = [path for path in paths if not path.resolve().is_relative_to(apart_from.resolve())]
    if loose := [path for path in paths if path.parent == source]:
        said = "put it into a subfolder named after its class, or give --labels FILE with lines of file,label"
        raise DataSetError(f"{loose[0]} has no label: {said}")
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
            raise DataSetError(f"{labels}, line {number}: wanted file,label, got {','.join(row)!r}")
    return [(file, label.strip()) for _, (file, label) in rows]


def _number(label: str, classes: Sequence[str], place: object) -> int:
    """The class that a label names; a name goes before a number, as in the classes 1, 2, 3."""
    if label in classes:
        return classes.index(label)
    if label.isdecimal() and int(label) < len(classes):
        return int(label)
    shown = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
    raise DataSetError(f"{place}: the label {label!r} is none of the ensemble's {len(classes)} classes ({shown})")


def _arrays(source: Path, labels: Path | None, classes: Sequence[str]) -> DataSet:
    with _load(source) as arrays:
        images = _array(arrays, "images", source)
        told = _labels(labels) if labels else _array(arrays, "labels", source, "; --labels FILE.npy has them elsewhere")
    if images.ndim not in (3, 4):
        wanted = "[N, H, W, C], [N, C, H, W] or [N, H, W]"
        raise DataSetError(f"{source}: images has shape {list(images.shape)}, wanted {wanted}")
    if told.shape != images.shape[:1]:
        wanted = f"a label for each of the {len(images)} images"
        raise DataSetError(f"{labels or source}: the labels have shape {list(told.shape)}, wanted {wanted}")
    names = [str(place) for place in range(len(images))]
    numbers = [_number(str(label), classes, f"image {place}") for place, label in enumerate(told.tolist())]
    return DataSet(names, images, numbers)


def _labels(path: Path) -> Any:
    found = _load(path)
    if hasattr(found, "files"):
        found.close()
        raise DataSetError(f"{path}: these are several arrays, wanted a .npy with the labels")
    return found


def _load(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "it is no file of numpy arrays"
        raise DataSetError(f"cannot read {path}: {said}") from error


def _array(arrays: Any, name: str, source: Path, remedy: str = "") -> Any:
    try:
        found = arrays[name]
    except KeyError:
        seen = ", ".join(arrays.files) or "none"
        raise DataSetError(f"{source}: there is no array {name!r}, but {seen}{remedy}") from None
    except (OSError, ValueError, BadZipFile) as error:
        raise DataSetError(f"{source}: the array {name!r} cannot be read: {error}") from error
    if not hasattr(found, "ndim"):
        raise DataSetError(f"{source}: {name!r} is in it, but is no array of numpy")
    return found
