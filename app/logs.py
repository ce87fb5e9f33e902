"""What the log says of a request: all that is logged while it is answered carries its id and what was noted of it.

Never in a log: bodies, keys, query strings.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from store.logs import JsonLines, log_as_json

_noted: ContextVar[dict[str, Any] | None] = ContextVar("noted", default=None)


def begin(**fields: Any) -> dict[str, Any]:
    """Begin a request: all that is logged in its context carries these fields, and those that are noted later."""
    noted = dict(fields)
    _noted.set(noted)
    return noted


def note(**fields: Any) -> None:
    """Add to what the lines of this request carry."""
    noted = _noted.get()
    if noted is not None:
        noted.update(fields)


class RequestLines(JsonLines):
    """Lines that carry what was noted of the request."""

    def context(self) -> dict[str, object]:
        """Of the request that is being answered."""
        return _noted.get() or {}


def configure() -> None:
    """Send every logger of this process to stderr as JSON."""
    log_as_json(RequestLines())
