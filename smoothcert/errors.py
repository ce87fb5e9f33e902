"""Everything that smoothcert raises on purpose.

SmoothcertError
├── DomainError (also a ValueError)    an argument outside its domain: says which, and the value seen
├── CountsError (also a ValueError)    counts that are not what a procedure asked for
├── CertificateError                   text that is not a certificate at all
├── LedgerError                        a file of finished work that is damaged, of another run, or cannot be written
└── ClientError                        what a client of the service raises: client/errors.py has its branches
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class SmoothcertError(Exception):
    """The root: catch this to catch them all."""


class DomainError(SmoothcertError, ValueError):
    """An argument outside its domain."""


class CountsError(SmoothcertError, ValueError):
    """Counts that are not what was asked for."""


class CertificateError(SmoothcertError):
    """Text that is not a certificate."""


class LedgerError(SmoothcertError):
    """A file of finished work that is damaged, belongs to another run, or cannot be written."""


LEAST_LEVEL = 1e-20
"""Of alpha and beta: far below any use, and far above what double precision loses in the tails of a distribution."""

MOST = 2**53 - 1
"""Of whole numbers: beyond it a JSON reader may round them."""


def require_number(name: str, value: float) -> None:
    """A real number; True and text are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DomainError(f"{name} must be a number, got {value!r}")


def require_probability(name: str, value: float) -> None:
    """0 < value < 1, which no NaN satisfies."""
    require_number(name, value)
    if not 0.0 < value < 1.0:
        raise DomainError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def require_level(name: str, value: float) -> None:
    """An alpha or beta: a probability, and not below LEAST_LEVEL."""
    require_probability(name, value)
    if value < LEAST_LEVEL:
        raise DomainError(f"{name} must be at least {LEAST_LEVEL}, got {value!r}")


def require_positive(name: str, value: float) -> None:
    """0 < value < infinity."""
    require_number(name, value)
    if not 0.0 < value < math.inf:
        raise DomainError(f"{name} must be positive and finite, got {value!r}")


def require_radius(value: float) -> None:
    """0 <= value < infinity."""
    require_number("radius", value)
    if not 0.0 <= value < math.inf:
        raise DomainError(f"radius must be zero or more and finite, got {value!r}")


def require_count(name: str, value: int, *, least: int = 1) -> None:
    """A whole number from `least` to MOST (True and 10.0 are not whole numbers here)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise DomainError(f"{name} must be a whole number, got {value!r}")
    if not least <= value <= MOST:
        raise DomainError(f"{name} must be from {least} to {MOST}, got {value!r}")


MOST_NAMED = 1000
"""Places that are named, where something is wrong with a text: each takes a kilobyte to tell."""
MOST_SHOWN = 60
"""Characters of a value that an error quotes."""


def explain(error: ValidationError) -> str:
    """What pydantic found wrong, as a sentence that names each place and the value seen there."""
    if (count := error.error_count()) > MOST_NAMED:
        return f"{count:,} places are wrong, more than can be named"
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the text'}: {worded(each)}" for each in error.errors())


def worded(each: ErrorDetails) -> str:
    """One thing that pydantic found wrong, with the value seen; in our words where its own are hard to understand."""
    kind, context, seen = each["type"], each.get("ctx", {}), shown(each["input"])
    match kind:
        case "union_tag_invalid":
            return f"must be one of {context['expected_tags']}, got {shown(context['tag'])}"
        case "union_tag_not_found":
            return f"must have the field {context['discriminator']}, got {seen}"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"there is no such field, got {seen}"
        case "missing":
            return "is missing"
        case "tuple_type" | "list_type":
            return f"must be a list, got {seen}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"must be an object, got {seen}"
    message = each["msg"].removeprefix("Value error, ")
    return message if ", got " in message else f"{message}, got {seen}"  # errors of ours have named it


def shown(value: object) -> str:
    """A value as an error may quote it: whole if short, its beginning otherwise."""
    if isinstance(value, str | bytes) and len(value) > MOST_SHOWN:  # not the repr of 32 MB
        return f"{value[: MOST_SHOWN - 3]!r}..."
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
