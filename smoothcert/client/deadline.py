"""A time by which a wait must end."""

from __future__ import annotations

import math
import time

from smoothcert.errors import DomainError, require_number


class Deadline:
    """A number of seconds from now; None for never."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None:
            require_number("wait_timeout", seconds)
            if not seconds >= 0:
                raise DomainError(f"wait_timeout must be zero seconds or more, or None, got {seconds!r}")
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left; zero when the deadline has passed."""
        return max(0.0, self._at - time.monotonic())
