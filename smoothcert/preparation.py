"""Preparation: what a client says that it did to an image before it sent it.

The service sees only the result, so nobody can check this. The certificate repeats it, so that a reader who has the
original knows that something else was certified.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from smoothcert.errors import DomainError
from smoothcert.frozen import Frozen
from smoothcert.resizing import MOST_SIDE, Size

Edge = Annotated[float, Field(strict=True, ge=0, le=MOST_SIDE, allow_inf_nan=False)]
NAME = r'^[^\x00-\x1f"\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,100}$'
"""A name between quotation marks: no such mark, no control characters, and nothing that turns text around."""


class Preparation(Frozen):
    """The client says that it cropped or scaled an image: a box of the source became what it sent."""

    source: Size
    """Width and height of the source."""
    box: tuple[Edge, Edge, Edge, Edge]
    """Left, top, right and bottom, in pixels of the source; they need not be whole."""
    by: Annotated[str, StringConstraints(pattern=NAME)]
    """What has done it, such as a program and its version."""
    checked: Literal[False] = False
    """Always false, since the service never sees the source."""

    @model_validator(mode="after")
    def _require_box(self) -> Self:
        (width, height), (left, top, right, bottom) = self.source, self.box
        signed = any(math.copysign(1, each) < 0 for each in self.box)  # -0.0 would be another text of the same box
        if signed or not (left < right <= width and top < bottom <= height):
            seen = ", ".join(f"{each:g}" for each in self.box)
            raise DomainError(
                f"the box must be 0 <= left < right <= {width} and 0 <= top < bottom <= {height} in a source of "
                f"{width} x {height} pixels, got {seen}"
            )
        return self

    def __str__(self) -> str:
        (width, height), (left, top, right, bottom) = self.source, (f"{each:g}" for each in self.box)
        whole = self.box == (0, 0, width, height)
        part = "the whole" if whole else f"the box from ({left}, {top}) to ({right}, {bottom})"
        return f'{part} of a source of {width} x {height} pixels (by "{self.by}")'
