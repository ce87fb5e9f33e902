"""A time by which something must have happened."""

from __future__ import annotations

import math
import time


class Deadline:
    """So many seconds from now; None for never."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, zero when it has passed."""
        return max(0.0, self._at - time.monotonic())
