"""Canonical JSON: one text for one value, the same in every language (RFC 8785).

Keys are sorted, there is no white space, and numbers are written as JavaScript prints them. So a browser, or anyone
with a JSON library, can recompute the digest of a certificate.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

_text = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes an encoder for every string


def canonical_json(value: Any) -> str:
    """The canonical text of a JSON value. NaN and infinities raise ValueError, other types TypeError."""
    match value:
        case None | bool() | str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return canonical_number(value)
        case list() | tuple():
            return "[" + ",".join(map(canonical_json, value)) + "]"
        case dict():
            keys = sorted(value, key=lambda key: key.encode("utf-16-be"))  # the order of JavaScript's strings
            return "{" + ",".join(f"{canonical_json(key)}:{canonical_json(value[key])}" for key in keys) + "}"
    raise TypeError(f"a JSON value must be None, a bool, a number, a str, a list or a dict; got {value!r}")


def canonical_number(x: float) -> str:
    """The shortest digits that read back as x, in the notation of JavaScript's Number.toString."""
    if not math.isfinite(x):
        raise ValueError(f"JSON has no number {x!r}")
    if x == 0.0:
        return "0"
    text = float.__repr__(x)
    if "e" not in text:  # Python writes fewer numbers without an exponent than JavaScript does
        return text.removesuffix(".0")
    if 1e-6 <= abs(x) < 1e21:
        return format(Decimal(text), "f")
    digits, exponent = text.split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def digest(value: Any) -> str:
    """sha256 of the canonical text in UTF-8."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
