"""When those who found a queue full may come again: one after the other, not all at once for the next free place."""

from __future__ import annotations

import time
from collections.abc import Sequence

UNMEASURED_SECONDS = 10.0
"""To wait for a place in a queue in which too little has ended to know its pace."""
SPREAD_SECONDS = 60.0
"""Turns are given out so far ahead: later than that, the pace and who still waits are anybody's guess."""
LONGEST_SECONDS = 600.0
"""Nobody is sent away for longer, however slow the pace."""


class Turns:
    """The last turn that was given out, for each pool."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def seconds(self, pool: str, places: int, endings: Sequence[float]) -> float:
        """Until the turn of the next who is sent away, where so many must end before one has room."""
        now, pause = time.monotonic(), pace(endings)
        room = min(places * pause, LONGEST_SECONDS)
        turn = max(now + room, self._last.get(pool, now) + pause)
        self._last[pool] = min(turn, now + max(room, SPREAD_SECONDS))
        return self._last[pool] - now


def pace(endings: Sequence[float]) -> float:
    """Seconds from one end to the next, by the last ones, the newest first; the quiet since then says nothing."""
    if len(endings) < 2:
        return UNMEASURED_SECONDS
    return max(0.0, endings[0] - endings[-1]) / (len(endings) - 1)  # clocks of workers differ
