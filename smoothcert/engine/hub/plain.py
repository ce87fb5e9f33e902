"""Values of a foreign configuration that may reach a library's constructors: numbers, words, lists and tables of them.

A text with a slash or a colon could be a path, an address, or the name of another repository from which a library
would load code. A word cannot.
"""

from __future__ import annotations

import re
from typing import Any

from smoothcert.engine.errors import MemberError

MOST_DEPTH = 8
"""The most levels of nested lists and tables; usual configurations have three."""
_WORD = re.compile(r"(\w[\w.+-]*)?", re.ASCII)


def plain(where: str, value: Any, depth: int = 0) -> Any:
    """Return a JSON value unchanged; MemberError unless it consists of numbers and plain words."""
    if depth > MOST_DEPTH:
        raise MemberError(f"{where} is nested more than {MOST_DEPTH} levels deep")
    if isinstance(value, dict):
        return {plain(where, key): plain(f"{where}.{key}", entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(where, entry, depth + 1) for entry in value]
    if isinstance(value, str) and not _WORD.fullmatch(value):
        raise MemberError(f"{where} has {value[:100]!r}; only numbers and plain words are accepted")
    return value
