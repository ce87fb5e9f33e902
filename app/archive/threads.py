"""Threads for the archive's blocking calls: a store that hangs holds up nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.archive.storage import StorageError

THREADS = 8
"""The number of calls at a time, those for readers included."""
LONGEST_S = 30.0
"""Seconds that a caller waits for one: less than the lease of what is being written."""

Result = TypeVar("Result")


class ArchiveThreads:
    """Runs calls of the archive with a limit of time."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="archive")

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of the work; StorageError if it takes too long."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, work)
            return await asyncio.wait_for(future, LONGEST_S)
        except TimeoutError as error:
            raise StorageError(f"the archive took more than {LONGEST_S:g} s") from error

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
