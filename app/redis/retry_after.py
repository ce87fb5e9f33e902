"""When clients that found a queue full should try again: one after the other, at the pace at which places get free.

If all clients were sent back for the next free place, they would all return at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

UNMEASURED_SECONDS = 10.0
"""The pause between two places while too few certifications have ended to measure it."""
SPREAD_SECONDS = 60.0
"""How far ahead times are spread. Beyond that, neither the pace nor which clients still wait can be predicted."""
LONGEST_SECONDS = 600.0
"""The longest Retry-After, however slow the pace."""


class RetryAfter:
    """The last time that was given out, for each pool."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def seconds(self, pool: str, places: int, endings: Sequence[float]) -> float:
        """Seconds until the next client should return, if `places` certifications must end before it has room."""
        now, pause = time.monotonic(), pace(endings)
        room = min(places * pause, LONGEST_SECONDS)
        turn = max(now + room, self._last.get(pool, now) + pause)
        self._last[pool] = min(turn, now + max(room, SPREAD_SECONDS))
        return self._last[pool] - now


def pace(endings: Sequence[float]) -> float:
    """Seconds from one end of a certification to the next, by the last ends, the newest first.

    The time since the newest end does not count.
    """
    if len(endings) < 2:
        return UNMEASURED_SECONDS
    return max(0.0, endings[0] - endings[-1]) / (len(endings) - 1)  # clocks of workers differ
