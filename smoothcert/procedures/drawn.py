"""The class counts of one draw, as procedures keep them for each of their looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Drawn = Sequence[int]
"""An entry for each class, and a last one for samples without a class."""
DENSE = 256
"""The number of entries up to which a draw is a tuple. Beyond it, few of the entries are above zero, and 69 looks at
100,000 classes would take 55 MB for each image."""


def drawn(counts: npt.NDArray[np.integer[Any]]) -> Drawn:
    """The entries of an array, in little memory."""
    return tuple(counts.tolist()) if len(counts) <= DENSE else SparseDraw(counts)


class SparseDraw(Sequence[int]):
    """Entries that are mostly zero; only the others are stored."""

    __slots__ = ("_length", "_occurring")

    def __init__(self, counts: npt.NDArray[np.integer[Any]]) -> None:
        places = np.flatnonzero(counts)
        self._length = len(counts)
        self._occurring: dict[int, int] = dict(zip(places.tolist(), counts[places].tolist(), strict=True))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...

    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        return self._occurring.get(range(self._length)[place], 0)  # the range refuses and wraps places as a tuple does

    def __iter__(self) -> Iterator[int]:
        entries = [0] * self._length
        for place, count in self._occurring.items():
            entries[place] = count
        return iter(entries)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseDraw):
            return NotImplemented
        return (self._length, self._occurring) == (other._length, other._occurring)

    def __hash__(self) -> int:
        return hash((self._length, frozenset(self._occurring.items())))

    def __repr__(self) -> str:
        return f"<{self._length} entries, of which above zero: {self._occurring}>"
