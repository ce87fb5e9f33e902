"""When clients that found no room should try again: one after the other, at the pace at which places get free.

If all clients were sent back for the next free place, they would all return at once. Redis remembers the last time that
was given out, so that API processes do not give out the same times.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.redis.queue import Queue

UNMEASURED_SECONDS = 10.0
"""The pause between two places while too few certifications have ended to measure it."""
SPREAD_SECONDS = 60.0
"""How far ahead times are spread. Beyond that, neither the pace nor which clients still wait can be predicted."""
LONGEST_SECONDS = 600.0
"""The longest Retry-After, however slow the pace."""


async def retry_after(queue: Queue, pool: str, places: int, *, owner: str = "") -> float:
    """Seconds until the next client should return, if `places` certifications must end before it has room.

    The clients of an `owner` that has too much under way have a line of their own; others do not wait for them.
    """
    pause = pace(await queue.endings(pool))
    room = min(places * pause, LONGEST_SECONDS)
    line = f"{pool}:{owner}" if owner else pool
    return await queue.come_back(line, room=room, pause=pause, spread=SPREAD_SECONDS)


def pace(endings: Sequence[float]) -> float:
    """Seconds from one end of a certification to the next, by the last ends, the newest first.

    The time since the newest end does not count.
    """
    if len(endings) < 2:
        return UNMEASURED_SECONDS
    return max(0.0, endings[0] - endings[-1]) / (len(endings) - 1)  # clocks of workers differ
