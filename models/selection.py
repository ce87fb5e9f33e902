"""A choice of images by their places in a data set: `start:stop:step` as in Python, or `3,5,8`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.errors import DataError

_SLICE = re.compile(r"(\d*):(\d*)(?::(\d*))?")


@dataclass(frozen=True)
class Selection:
    """`1::20` is 1, 21, 41, ...; places count from 0 and are never negative."""

    text: str

    def __post_init__(self) -> None:
        if not (_SLICE.fullmatch(self.text) or re.fullmatch(r"\d+(,\d+)*", self.text)):
            raise DataError(f"selection {self.text!r} is neither start:stop:step nor places like 3,5,8")
        if self.text.endswith(":0"):
            raise DataError(f"selection {self.text!r} has step 0")

    def places(self, size: int) -> npt.NDArray[np.int64]:
        """The places chosen in a set of this size, in ascending order."""
        if ":" in self.text:
            return np.arange(size, dtype=np.int64)[
                slice(*(int(part) if part else None for part in self.text.split(":")))
            ]
        places = np.unique(np.array(self.text.split(","), dtype=np.int64))
        if places[-1] >= size:
            raise DataError(f"selection {self.text!r} has place {places[-1]}, and there are {size} images")
        return places
