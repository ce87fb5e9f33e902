"""Logs as JSON, one object in a line, on stderr. What belongs to a request carries its id.

Never in a log: bodies, keys, query strings.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

FIELDS = ("request_id", "certification_id", "method", "path", "status", "seconds", "owner")

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


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **(_noted.get() or {}),
            **{name: record.__dict__[name] for name in FIELDS if name in record.__dict__},
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def configure() -> None:
    """Send every logger of this process, and Python's warnings, to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)
