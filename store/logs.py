"""Logs as JSON lines on standard error: one object a line, so nothing that is logged can forge another line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonLines(logging.Formatter):
    """Time, level, logger, message, and whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.context(),
        }
        said |= {name: value for name, value in vars(record).items() if name not in KNOWN}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)

    def context(self) -> dict[str, object]:
        """What every line of the moment carries."""
        return {}


def log_as_json(formatter: JsonLines | None = None) -> None:
    """Everything that this process logs, and Python's warnings, from here on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter or JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)
