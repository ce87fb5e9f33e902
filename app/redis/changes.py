"""Whoever waits for a certification is woken when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from smoothcert.certification import ENDED
from store.keys import DELETED


class Watch:
    """Somebody's wait for news of one certification: for any news, or for its end alone."""

    def __init__(self, *, for_the_end: bool) -> None:
        self.for_the_end = for_the_end
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There may be news."""
        self._news.set()

    async def changed(self, seconds: float) -> None:
        """Until there may be news since the last call, and no longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()


class Changes:
    """All watches of this process, by certification."""

    def __init__(self) -> None:
        self.closed = False
        """Whether nobody should wait any longer: the process is about to end."""
        self._watches: dict[str, list[Watch]] = {}

    @contextmanager
    def watch(self, certification: str, *, for_the_end: bool = False) -> Iterator[Watch]:
        """News of this one, from now on."""
        watch = Watch(for_the_end=for_the_end)
        self._watches.setdefault(certification, []).append(watch)
        try:
            yield watch
        finally:
            watches = self._watches[certification]
            watches.remove(watch)
            if not watches:
                del self._watches[certification]

    def wake(self, certification: str, status: str) -> None:
        """This one has changed, and has this status now."""
        ended = status in ENDED or status == DELETED
        for watch in self._watches.get(certification, ()):
            if ended or not watch.for_the_end:
                watch.wake()

    def wake_all(self) -> None:
        """Any of them may have changed."""
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    def close(self) -> None:
        """Let everybody go."""
        self.closed = True
        self.wake_all()
