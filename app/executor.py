"""A thread for mathematics that may take seconds, with a bound on how many computations wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.http.errors import ProblemError

MOST_WAITING = 32
"""The number of computations that may run or wait; further requests get a 503."""
RETRY_SECONDS = 10
"""The Retry-After of that 503: a few computations of a typical second each have ended by then."""

Result = TypeVar("Result")


class BoundedExecutor:
    """Runs computations one after the other in a thread, so that the event loop stays free.

    The boundaries of a large sequential test take seconds.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mathematics")
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of the work; ProblemError if MOST_WAITING computations wait already."""
        if self._waiting >= MOST_WAITING:
            detail = f"{self._waiting} computations of this kind are under way; try again in a moment"
            raise ProblemError("unavailable", detail, retry_after=RETRY_SECONDS)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drop the computations that have not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
