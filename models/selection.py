"""A selection of images by their places in a data set: `start:stop:step` as in Python, or `3,5,8`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.errors import DataError

_PLACES = re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*")  # 18 digits fit in 64 bits
_SLICE = re.compile(r"[0-9]{0,18}:[0-9]{0,18}(?::([0-9]{0,18}))?")


@dataclass(frozen=True)
class Selection:
    """The text `1::20` selects the places 1, 21, 41, ...; places count from 0 and are never negative."""

    text: str

    def __post_init__(self) -> None:
        as_slice = _SLICE.fullmatch(self.text)
        if not (as_slice or _PLACES.fullmatch(self.text)):
            raise DataError(
                f"selection {self.text!r} is neither start:stop:step nor a list of places like 3,5,8 (numbers have at "
                f"most 18 digits)"
            )
        if as_slice and as_slice[1] and int(as_slice[1]) == 0:
            raise DataError(f"selection {self.text!r} has step 0")

    def __contains__(self, place: int) -> bool:
        """Whether the place is selected, in every data set that is large enough to have it."""
        if ":" in self.text:
            return place in range(*self._slice.indices(place + 1))
        return place in map(int, self.text.split(","))

    def places(self, size: int) -> npt.NDArray[np.int64]:
        """The places selected in a data set of this size, in ascending order."""
        if ":" in self.text:
            return np.arange(size, dtype=np.int64)[self._slice]
        places = np.unique(np.array(self.text.split(","), dtype=np.int64))
        if places[-1] >= size:
            raise DataError(f"selection {self.text!r} has place {places[-1]}, and there are {size} images")
        return places

    @property
    def _slice(self) -> slice:
        return slice(*(int(part) if part else None for part in self.text.split(":")))
