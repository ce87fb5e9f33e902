"""Labelled images on disk: data sets to train on, sheets, and npz files.

A further data set is a new file here, its entry in `DATA_SETS`, and its test.
"""

from __future__ import annotations

from pathlib import Path

from models.data.cifar10 import Cifar10
from models.data.dataset import DataSet
from models.data.images import Images, reading
from models.data.mnist import Mnist
from models.data.npz import read_npz
from models.data.sheet import read_sheet, write_sheet
from models.errors import DataError

DATA_SETS: tuple[DataSet, ...] = (Cifar10(), Mnist())


def data_set(folder: Path) -> DataSet:
    """The data set that a folder holds."""
    for found in DATA_SETS:
        if found.recognises(folder):
            return found
    known = "; ".join(f"{each.name}: {each.files}" for each in DATA_SETS)
    raise DataError(f"{folder}: holds none of the data sets that are known by their files ({known})")


def load_images(path: Path, *, train: bool = False) -> Images:
    """Images in any form: the folder of a data set, the JSON file of a sheet, or an npz with `images` and `labels`."""
    if path.is_dir():
        return data_set(path).load(path, train=train)
    if path.suffix not in (".json", ".npz"):
        raise DataError(f"{path}: is neither a folder nor the .json of a sheet nor an .npz file")
    with reading(path):
        return read_sheet(path) if path.suffix == ".json" else read_npz(path)


__all__ = ["DATA_SETS", "DataError", "DataSet", "Images", "data_set", "load_images", "write_sheet"]
