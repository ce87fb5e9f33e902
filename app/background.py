"""Work of an API process beside its requests: a loop that finds what is due, and a task for each piece of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

Piece = TypeVar("Piece")


class Background(Generic[Piece]):
    """Runs until it is closed; what is under way then is left to another process."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Piece] = {}
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def under_way(self) -> list[Piece]:
        return list(self._tasks.values())

    @asynccontextmanager
    async def running(self, loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """A context in which the loop runs. The loop ends by itself once this is `closed`."""
        task = asyncio.create_task(loop)
        try:
            yield
        finally:
            self._closed.set()
            await task
            for each in self._tasks:
                each.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, piece: Piece, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = piece
        task.add_done_callback(self._tasks.pop)

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until this is closed."""
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except TimeoutError:
            return

    async def one_is_done(self) -> None:
        """Wait until a piece of work that is under way has ended."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
