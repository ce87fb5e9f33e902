"""Everything that smoothcert raises on purpose.

SmoothcertError
├── DomainError (also a ValueError)    an argument outside its domain: says which, and the value seen
├── CountsError (also a ValueError)    counts that are not what a procedure asked for
└── CertificateError                   text that is not a certificate at all
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class SmoothcertError(Exception):
    """The root: catch this to catch them all."""


class DomainError(SmoothcertError, ValueError):
    """An argument outside its domain."""


class CountsError(SmoothcertError, ValueError):
    """Counts that are not what was asked for."""


class CertificateError(SmoothcertError):
    """Text that is not a certificate."""


def require_probability(name: str, value: float) -> None:
    """0 < value < 1, which no NaN satisfies."""
    if not 0.0 < value < 1.0:
        raise DomainError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def require_positive(name: str, value: float) -> None:
    """0 < value < infinity."""
    if not 0.0 < value < math.inf:
        raise DomainError(f"{name} must be positive and finite, got {value!r}")


def require_radius(value: float) -> None:
    """0 <= value < infinity."""
    if not 0.0 <= value < math.inf:
        raise DomainError(f"radius must be zero or more and finite, got {value!r}")


def require_count(name: str, value: int, *, least: int = 1) -> None:
    """A whole number, `least` or more (True and 10.0 are not whole numbers here)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise DomainError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise DomainError(f"{name} must be at least {least}, got {value!r}")


def explain(error: ValidationError) -> str:
    """What pydantic found wrong, as a sentence that names each place and the value seen there."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the text'}: {each['msg']}, got {_short(each['input'])}"
        for each in error.errors()
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
