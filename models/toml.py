"""TOML texts and tables, read so that every error names the key and the value seen."""

from __future__ import annotations

import tomllib
from typing import Any

from models.errors import DescriptionError


def read_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text. As TOML requires, a number that does not fit in 64 bits is an error."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # not only TOMLDecodeError: Python refuses to read numbers of thousands of digits
        raise DescriptionError(f"not TOML: {error}") from error
    except RecursionError as error:
        raise DescriptionError("not TOML: nested too deeply") from error
    left: list[Any] = [table]
    while left:  # not a recursion: dotted keys may nest deeper than Python can follow
        value = left.pop()
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise DescriptionError(f"not TOML: an integer of {value.bit_length()} bits, more than 64")
    return table


class TomlTable:
    """A table from which each key is taken once, with its type checked; `done` refuses the keys that are left."""

    def __init__(self, where: str, content: Any) -> None:
        if not isinstance(content, dict):
            raise DescriptionError(f"{where} is {content!r}, not a table")
        self.where = where
        """Precedes every key in errors, for example "members[0].file"."""
        self._left = dict(content)

    def take(self, key: str, *kinds: type) -> Any:
        """The value of a key that must be present."""
        if key not in self._left:
            raise DescriptionError(f"{self.where}{key} is missing")
        return self.find(key, *kinds)

    def find(self, key: str, *kinds: type) -> Any:
        """The value of a key, or None."""
        value = self._left.pop(key, None)
        if value is not None and type(value) not in kinds:
            accepted = " or ".join(kind.__name__ for kind in kinds)
            raise DescriptionError(f"{self.where}{key} = {value!r} is not of type {accepted}")
        return value

    def numbers(self, key: str) -> dict[str, float] | None:
        """A table of numbers, or None."""
        found = self.find(key, dict)
        if found is not None and not all(type(value) in (int, float) for value in found.values()):
            raise DescriptionError(f"{self.where}{key} = {found!r} is not a table of numbers")
        return None if found is None else {name: float(value) for name, value in found.items()}

    def several(self, key: str, *kinds: type) -> tuple[Any, ...]:
        """A list whose entries are all of these types."""
        found = self.take(key, list)
        if not all(type(entry) in kinds for entry in found):
            raise DescriptionError(f"{self.where}{key} = {found!r} is not a list of {kinds[0].__name__}")
        return tuple(found)

    def done(self) -> None:
        if self._left:
            raise DescriptionError(f"unknown keys: {', '.join(self.where + key for key in sorted(self._left))}")
