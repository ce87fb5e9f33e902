"""The errors that smoothcert raises on purpose.

SmoothcertError
├── DomainError (also a ValueError)    an argument outside its domain; the message names it and the value seen
├── CountsError (also a ValueError)    counts other than those that a procedure asked for
├── CertificateError                   a text that is not a certificate
├── AttestationError                   an envelope or a key that cannot be read, or that is not what it should be
├── LedgerError                        a file of finished work that is damaged, of another run, or cannot be written
├── EngineError                        an error of the engine; engine/errors.py has the branches
└── ClientError                        an error of a client of the service; client/errors.py has the branches
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

P = ParamSpec("P")
T = TypeVar("T")


class SmoothcertError(Exception):
    """The root of all errors of smoothcert."""


class DomainError(SmoothcertError, ValueError):
    """An argument outside its domain."""


class CountsError(SmoothcertError, ValueError):
    """Counts other than those that a procedure asked for."""


class CertificateError(SmoothcertError):
    """A text that is not a certificate."""


class AttestationError(SmoothcertError):
    """An envelope or a key that cannot be read, or that is not what it should be."""


class OffGridError(DomainError):
    """An image whose values are not k / 255, for a noise that needs bytes."""


class LedgerError(SmoothcertError):
    """A file of finished work that is damaged, belongs to another run, or cannot be written."""


LEAST_LEVEL = 1e-20
"""The least alpha and beta: far below any use, and far above the errors of double precision in a tail."""

BYTE_ORDER_MARK = "\ufeff"

MOST = 2**53 - 1
"""The largest whole number in requests and certificates: a JSON reader may round larger ones."""


def require_number(name: str, value: float) -> None:
    """Raise DomainError unless the value is a real number (True and text are not)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DomainError(f"{name} must be a number, got {value!r}")


def require_probability(name: str, value: float) -> None:
    """Raise DomainError unless 0 < value < 1; NaN is refused, too."""
    require_number(name, value)
    if not 0.0 < value < 1.0:
        raise DomainError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def fault(error: Exception) -> str:
    """Why a text cannot be read, for people who do not know Python's codecs."""
    match error:
        case UnicodeDecodeError():
            return "it is not text"
        case json.JSONDecodeError():
            if not error.doc.strip():
                return "it is empty"
            if error.doc.startswith(BYTE_ORDER_MARK):
                return "it begins with a byte-order mark, which JSON must not have: save it as UTF-8 without one"
            return f"it is not JSON ({error.msg.removesuffix(' at')} at character {error.pos + 1})"
        case RecursionError():
            return "it is nested too deeply"
    return "it has a number of too many digits" if "set_int_max_str_digits" in str(error) else str(error)


def unreadable(text: str | bytes) -> str | None:
    """Why a text is not JSON in UTF-8; None if it is."""
    try:
        json.loads(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        return fault(error)
    return None


def require_level(name: str, value: float) -> None:
    """Raise DomainError unless LEAST_LEVEL <= value < 1, the domain of alpha and beta."""
    require_probability(name, value)
    if value < LEAST_LEVEL:
        raise DomainError(f"{name} must be at least {LEAST_LEVEL}, got {value!r}")


def require_positive(name: str, value: float) -> None:
    """Raise DomainError unless 0 < value < infinity."""
    require_number(name, value)
    if not 0.0 < value < math.inf:
        raise DomainError(f"{name} must be positive and finite, got {value!r}")


def require_radius(value: float) -> None:
    """Raise DomainError unless 0 <= value < infinity."""
    require_number("radius", value)
    if not 0.0 <= value < math.inf:
        raise DomainError(f"radius must be zero or more and finite, got {value!r}")


def require_count(name: str, value: int, *, least: int = 1, most: int = MOST) -> None:
    """Raise DomainError unless the value is a whole number from `least` to `most` (True and 10.0 are refused)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise DomainError(f"{name} must be a whole number, got {value!r}")
    if not least <= value <= most:
        raise DomainError(f"{name} must be from {least} to {most}, got {value!r}")


def suggestion(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """The end of a sentence about an unknown name: the nearest one that is known, or nothing if none is near.

    A prefix that all names have would make them all look near, so it is given apart from them.
    """
    nearest = get_close_matches(name, sorted(known), n=1)
    return f", did you mean {prefix}{nearest[0]}?" if nearest else ""


def refuse_unknown(named: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError for an unknown keyword that names the nearest one; Python's own names none."""
    known = list(known)
    if unknown := sorted(set(named) - set(known)):
        near = suggestion(unknown[0], known)
        raise TypeError(f"there is no keyword {unknown[0]!r}{near}; there are {', '.join(known)}")


def refusing_unknown(function: Callable[P, T]) -> Callable[P, T]:
    """A decorator: the function refuses unknown keywords as `refuse_unknown` does."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def called(*positional: P.args, **named: P.kwargs) -> T:
        refuse_unknown(named, known)
        return function(*positional, **named)

    return called


MOST_NAMED = 1000
"""The most wrong places of a text that an error names: each takes up to a kilobyte."""
LONGEST_WHOLE = 1e15
"""Numbers from here on are written with an exponent."""
MOST_SHOWN = 60
"""The most characters of a value that an error quotes."""


WORDS = "words"
"""The part of an error's context that has a sentence of ours, for one whose sentence needs more than pydantic knows."""
LIMITS = {
    "greater_than_equal": "at least",
    "less_than_equal": "at most",
    "greater_than": "more than",
    "less_than": "less than",
}
"""The words for the limits of a number, by pydantic's types of errors."""
TYPES = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "string_type": "text",
    "timezone_aware": "a time with its zone, such as 2026-01-31T12:00:00Z",
}
"""The words for what a value must be, by pydantic's types of errors."""
PYTHON_TYPE = re.compile(r"(tuple|list|dict|literal|nullable|function-\w+)\[.*\]$")
"""The steps of a path that pydantic names after an alternative of a union."""


def explain(error: ValidationError, *, whole: str = "the text", named: Callable[[str], str] = str) -> str:
    """The errors that pydantic found as a sentence that names each place and the value seen there.

    `whole` is what was validated, for an error that is not in one of its fields; an empty one is not named. `named`
    says what the user calls a field.
    """
    if (count := error.error_count()) > MOST_NAMED:
        return f"{count:,} places are wrong, more than can be named"
    paths = ((place_of(each["loc"]), worded(each)) for each in error.errors())
    places = ((named(path) if path else whole, words) for path, words in paths)
    return "; ".join(f"{place}: {words}" if place else words for place, words in places)


def place_of(loc: Iterable[int | str]) -> str:
    """The place of an error as a path, without the Python types by which pydantic tells alternatives apart."""
    steps = (str(step)[:MOST_SHOWN] for step in loc)  # a field of a stranger's text may have a name of megabytes
    return ".".join(step for step in steps if not PYTHON_TYPE.match(step))


def worded(each: ErrorDetails) -> str:
    """One error that pydantic found, with the value seen; in our words if its own are hard to understand."""
    kind, context, seen = each["type"], each.get("ctx", {}), shown(each["input"])
    if WORDS in context:
        return str(context[WORDS])
    match kind:
        case "union_tag_invalid":
            names, tag = str(context["expected_tags"]), _tag(each)
            near = suggestion(str(tag), names.replace("'", "").split(", "))
            return f"must be one of {names}, got {shown(tag)}{near}"
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
        case "greater_than_equal" | "less_than_equal" | "greater_than" | "less_than":
            limit = next(iter(context.values()))
            return f"must be {LIMITS[kind]} {_number(limit)}, got {seen}"
        case _ if kind in TYPES:
            return f"must be {TYPES[kind]}, got {seen}"
        case "literal_error" | "enum":
            found, known = each["input"], re.findall(r"'([^']*)'", str(context["expected"]))
            near = suggestion(found, known) if isinstance(found, str) else ""
            return f"must be {context['expected']}, got {seen}{near}"
    message = each["msg"].removeprefix("Value error, ")
    if isinstance(context.get("error"), DomainError) and not each["loc"]:  # of the fields together: it quotes both
        return message
    return message if ", got " in message else f"{message}, got {seen}"  # errors of ours have named it


def _number(limit: object) -> str:
    """A limit as it is written by hand: 1000000, and not 1e+06."""
    if isinstance(limit, float):
        return f"{limit:.0f}" if limit.is_integer() and abs(limit) < LONGEST_WHOLE else f"{limit:g}"
    return str(limit)


def _tag(each: ErrorDetails) -> object:
    """The name that chose no kind, as it was given: pydantic makes a text of it, and null would look like a name."""
    field = str(each["ctx"]["discriminator"]).strip("'")
    found = each["input"]
    return found[field] if isinstance(found, dict) and field in found else getattr(found, field, each["ctx"]["tag"])


def shown(value: object) -> str:
    """The repr of a value as errors quote it: at most MOST_SHOWN characters, then `...`."""
    if isinstance(value, str | bytes) and len(value) > MOST_SHOWN:  # avoids the repr of 32 MB
        return f"{value[: MOST_SHOWN - 3]!r}..."
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
