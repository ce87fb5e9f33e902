"""How many samples fell on which class, as certificates and checkpoints state it: only classes that occurred."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from smoothcert.errors import MOST, shown

MOST_CLASSES = 100_000
"""The most classes of an ensemble."""
MOST_NAME = 1_000
"""The most characters of the name of a class."""
NAMED = 10
"""The most frequent classes of a run that its certificate names, beside those that led at some look."""
OTHER = "other"
"""The key, beside the classes, under which the samples that fell on no named class are counted."""
_CLASS = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True)
class SampleCounts(Mapping[int, int]):
    """The samples of one draw by class. `counts[7]` is 0 for a class that is not named, as with a Counter.

    In JSON this is an object such as `{"3": 95, "7": 2, "other": 3}`. Certificates of format 1 have a list with an
    entry for every class, and a last one for samples without a class.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    """The named classes in increasing order, each with the number of its samples, which is positive."""
    other: int = 0
    """The samples of all other classes, and those without a class."""
    classes: int | None = field(default=None, compare=False)
    """The number of all classes where the counts are written as a list."""

    @classmethod
    def of(
        cls, counts: Sequence[int], *, named: Sequence[int] | None = None, labels: Sequence[int] | None = None
    ) -> SampleCounts:
        """From an entry per class, and a last one for samples without a class.

        Only the places `named` are counted on their own, all by default; `labels` are the classes of all places.
        """
        if not counts:
            return cls()
        *classes, other = counts
        places = range(len(classes)) if named is None else sorted(named)
        found = [(place, classes[place]) for place in places if classes[place]]
        others = other + sum(classes) - sum(count for _, count in found)
        return cls(tuple((labels[place] if labels else place, count) for place, count in found), others)

    @classmethod
    def listing(cls, counts: Sequence[int]) -> SampleCounts:
        """The same as `of`, but written as a list: the form of format 1."""
        complete = cls.of(counts)
        return cls(complete.pairs, complete.other, max(0, len(counts) - 1))

    @classmethod
    def occurring(cls, counts: npt.NDArray[np.int64]) -> SampleCounts:
        """The same as `of`, quickly, from an array that is mostly zero."""
        places = np.flatnonzero(counts[:-1])
        return cls(tuple(zip(places.tolist(), counts[places].tolist(), strict=True)), int(counts[-1]))

    @cached_property
    def _by_class(self) -> dict[int, int]:
        return dict(self.pairs)

    def __getitem__(self, of_class: int) -> int:
        if of_class < 0:
            raise KeyError(f"there is no class {of_class}; samples without a class are among `other`")
        return self._by_class.get(of_class, 0)

    def __contains__(self, of_class: object) -> bool:
        return of_class in self._by_class

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_class)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def total(self) -> int:
        return sum(count for _, count in self.pairs) + self.other

    @property
    def leading(self) -> int | None:
        """The named class with the most samples (the lowest of equals); None where no class is named."""
        return max(self.pairs, key=lambda pair: (pair[1], -pair[0]), default=(None, 0))[0]

    def __add__(self, more: SampleCounts) -> SampleCounts:
        together = self._by_class | {each: self[each] + count for each, count in more.pairs}
        return SampleCounts(tuple(sorted(together.items())), self.other + more.other)

    def array(self, labels: Sequence[int]) -> npt.NDArray[np.int64]:
        """An entry for each of these classes, and a last one for the others, as procedures are sent them."""
        return np.array([*map(self.__getitem__, labels), self.other], dtype=np.int64)

    # --- JSON

    def written(self) -> dict[str, int] | list[int]:
        """The form in which JSON has it."""
        if self.classes is not None:
            listed = [0] * self.classes
            for each, count in self.pairs:
                listed[each] = count
            return [*listed, self.other] if listed or self.other else []
        found = {str(each): count for each, count in self.pairs}
        return found | {OTHER: self.other} if self.other else found

    @classmethod
    def read(cls, value: object) -> SampleCounts:
        """From the form in which JSON has it; ValueError says what is wrong."""
        match value:
            case SampleCounts():
                return value
            case list() | tuple():
                return cls.listing([_count(f"entry {place}", each, least=0) for place, each in enumerate(value)])
            case dict():
                found = {_key(key): _count(shown(key), each, least=1) for key, each in value.items()}
                other = found.pop(OTHER, 0)
                return cls(tuple(sorted((int(each), count) for each, count in found.items())), other)
        raise ValueError(f"must be an object of classes and their samples, got {shown(value)}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read, serialization=core_schema.plain_serializer_function_ser_schema(cls.written)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
                {"type": "array", "items": {"type": "integer", "minimum": 0}},
            ]
        }


def _count(place: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise ValueError(f"{place} must be a whole number from {least} to {MOST}, got {shown(value)}")
    return value


def _key(key: object) -> str:
    if not isinstance(key, str) or not (key == OTHER or (_CLASS.fullmatch(key) and int(key) <= MOST)):
        raise ValueError(f"must name classes by their numbers, or {OTHER!r}, got {shown(key)}")
    return key


def named_places(selection: Sequence[int], stages: Sequence[Sequence[int]]) -> list[int]:
    """The classes that a certificate names, by their places in the counts.

    Those are the classes that led after the selection or at some look, since decisions are about them, and the NAMED
    most frequent ones.
    """
    chosen = np.array(selection[:-1], dtype=np.int64)
    led = {int(chosen.argmax())} if selection else set()
    looks = np.zeros(len(stages[-1]) - 1 if stages else len(chosen), dtype=np.int64)
    for counts in stages:  # one at a time: all of them at once take much memory where there are many classes
        looks += np.array(counts[:-1], dtype=np.int64)
        led.add(int(looks.argmax()))
    together = looks + chosen if selection else looks
    return sorted(led.union(np.argsort(-together, kind="stable")[:NAMED].tolist()))
