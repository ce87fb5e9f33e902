"""Labels of images: names of classes, or their numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from smoothcert.errors import DomainError, shown, suggestion

MOST_LISTED = 10
"""The number of classes that an error lists."""
MOST_DIGITS = 9
"""The digits up to which a text counts as a number."""


def class_number(label: Any, classes: Sequence[str]) -> int:
    """The number of the class that a label names; DomainError names the nearest class.

    Names take precedence over numbers, because classes may be called 1, 2, 3.
    """
    if isinstance(label, str):
        return _by_name(label, classes)
    try:
        number = -1 if isinstance(label, bool) else operator.index(label)
    except TypeError:
        number = -1
    if not 0 <= number < len(classes):
        raise DomainError(
            f"a label must be the name of a class or its number from 0 to {len(classes) - 1}, got {shown(label)}"
        )
    return number


def _by_name(label: str, classes: Sequence[str]) -> int:
    if label in classes:
        return classes.index(label)
    if label.isdecimal() and len(label) <= MOST_DIGITS and int(label) < len(classes):
        return int(label)
    listed = ", ".join(classes[:MOST_LISTED]) + (", ..." if len(classes) > MOST_LISTED else "")
    near = suggestion(label, classes)
    raise DomainError(f"the label {shown(label)} is not one of the ensemble's {len(classes)} classes ({listed}){near}")
