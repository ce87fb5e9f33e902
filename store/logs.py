"""Logs as JSON lines on standard error: with one object a line, no message can forge another line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}
"""The attributes of a log record that are not `extra` fields."""


class JsonLines(logging.Formatter):
    """A line has the time, the level, the logger, the message and all fields that were given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.context(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in KNOWN}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)

    def context(self) -> dict[str, object]:
        """Fields that are added to every line, for example the id of the request under way."""
        return {}


def log_as_json(formatter: JsonLines | None = None) -> None:
    """Write everything that this process logs, Python's warnings included, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter or JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)
