"""A warning that recurs for as long as something is wrong, such as a server that is away."""

from __future__ import annotations

import logging
import time

REMIND_SECONDS = 60.0
"""Seconds after which a warning that has not changed is logged again."""


class RecurringWarning:
    """Logs a warning when it first comes up or has changed, and otherwise every REMIND_SECONDS."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._last, self._due = "", 0.0

    def warn(self, text: str) -> None:
        now = time.monotonic()
        if text != self._last or now >= self._due:
            self._last, self._due = text, now + REMIND_SECONDS
            self._logger.warning("%s", text)

    def end(self) -> None:
        """Note that nothing is wrong any more: the same warning is news the next time."""
        self._last = ""
