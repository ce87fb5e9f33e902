"""Fields of a request that every log line carries while the request is answered, such as its id and its owner.

Bodies, keys and query strings are never logged.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from store.logs import JsonLines, log_as_json

_fields: ContextVar[dict[str, Any] | None] = ContextVar("fields", default=None)


def begin(**fields: Any) -> dict[str, Any]:
    """Begin a request: all lines that are logged in its context carry these fields, and those noted later."""
    noted = dict(fields)
    _fields.set(noted)
    return noted


def note(**fields: Any) -> None:
    """Add fields to the lines of the present request."""
    noted = _fields.get()
    if noted is not None:
        noted.update(fields)


class RequestLines(JsonLines):
    """JSON lines that carry the fields of the present request."""

    def context(self) -> dict[str, object]:
        return _fields.get() or {}


def configure() -> None:
    """Send every logger of this process to stderr as JSON."""
    log_as_json(RequestLines())
