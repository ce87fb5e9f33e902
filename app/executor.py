"""A thread for mathematics that may take seconds, with a bound on how many computations wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.http.errors import ProblemError
from store.waiting import ANONYMOUS

MOST_WAITING = 32
"""The number of computations that may run or wait; further requests get a 503."""
MOST_OF_AN_OWNER = MOST_WAITING // 4
"""The number of them that may be of one key, so that others find room."""
RETRY_SECONDS = 10
"""The Retry-After of that 503: a few computations of a typical second each have ended by then."""

Result = TypeVar("Result")


class BoundedExecutor:
    """Runs computations one after the other in a thread, so that the event loop stays free.

    The boundaries of a large sequential test take seconds.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mathematics")
        self._waiting: Counter[str] = Counter()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # owners are few

    async def run(self, work: Callable[[], Result], *, owner: str = ANONYMOUS) -> Result:
        """The result of the work; ProblemError if MOST_WAITING computations wait already, or too many of this owner.

        Owners take turns: the next computation of an owner lines up when its last one has ended.
        """
        if (waiting := self._waiting.total()) >= MOST_WAITING:
            detail = f"{waiting} computations of this kind are under way; try again in a moment"
            raise ProblemError("unavailable", detail, retry_after=RETRY_SECONDS)
        if owner != ANONYMOUS and self._waiting[owner] >= MOST_OF_AN_OWNER:
            detail = f"{self._waiting[owner]} computations of this key are under way; try again in a moment"
            raise ProblemError("too_many_requests", detail, retry_after=RETRY_SECONDS)
        self._waiting[owner] += 1
        try:
            async with self._turns[owner]:
                return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._waiting[owner] -= 1

    def close(self) -> None:
        """Drop the computations that have not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
