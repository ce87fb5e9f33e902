"""A thread for mathematics that may take long: nobody else waits for it, and not many may wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.http.errors import ProblemError

MOST_WAITING = 32
RETRY_SECONDS = 10

Result = TypeVar("Result")


class Calculator:
    """The boundaries of a large sequential test are seconds of work; they are computed one after the other."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="calculator")
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of the work; ProblemError where too much waits already."""
        if self._waiting >= MOST_WAITING:
            detail = f"{self._waiting} plans or verifications are being computed; try again in a moment"
            raise ProblemError("unavailable", detail, retry_after=RETRY_SECONDS)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drop what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
