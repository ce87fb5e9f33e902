"""A place in a list of certifications, as an opaque text."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from app.http.errors import invalid
from smoothcert.errors import shown

LATEST = 1e10
"""A time after that of every certification, in the year 2286."""


@dataclass(frozen=True, order=True)
class Cursor:
    """The place after a certification, in the order of creation."""

    created_at: float
    certification: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(f"{self.created_at!r} {self.certification}".encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor:
        """The cursor in the `next_cursor` of an earlier page."""
        try:
            decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            created_at, certification = decoded.split(" ")
            cursor = cls(float(created_at), certification)
        except ValueError:
            cursor = None
        if cursor is None or not 0 <= cursor.created_at <= LATEST or str(cursor) != text:
            raise invalid("cursor", f"must be the next_cursor of an earlier page, got {shown(text)}")
        return cursor
