"""Wakes requests that wait for a certification when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from smoothcert.certification import ENDED
from store.keys import DELETED


class Watch:
    """The wait of one request for a certification: for any change, or for its end alone."""

    def __init__(self, *, for_the_end: bool) -> None:
        self.for_the_end = for_the_end
        self._event = asyncio.Event()
        self._ended = False

    def wake(self, *, ended: bool = False) -> None:
        """Wake the request; `ended` says that a message has told of the end."""
        self._ended |= ended
        self._event.set()

    async def changed(self, seconds: float) -> bool:
        """Wait until there may have been a change since the last call, but no longer than `seconds`.

        Returns whether a message has told of the end or of the deletion.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()
        return self._ended


class Changes:
    """All watches of this process, by certification."""

    def __init__(self) -> None:
        self.closed = False
        """Whether the process is about to end, so that no request should wait any longer."""
        self._watches: dict[str, list[Watch]] = {}

    @contextmanager
    def watch(self, certification: str, *, for_the_end: bool = False) -> Iterator[Watch]:
        """A watch on a certification, from now on."""
        watch = Watch(for_the_end=for_the_end)
        self._watches.setdefault(certification, []).append(watch)
        try:
            yield watch
        finally:
            watches = self._watches[certification]
            watches.remove(watch)
            if not watches:
                del self._watches[certification]

    def wake(self, certification: str, status: str | None = None) -> None:
        """Wake the watches on a certification, which has this status now; None if it may have any."""
        ended = status in ENDED or status == DELETED
        for watch in self._watches.get(certification, ()):
            if ended or status is None or not watch.for_the_end:
                watch.wake(ended=ended)

    def wake_all(self) -> None:
        """Wake all watches: any certification may have changed."""
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    def close(self) -> None:
        """Release every request that waits."""
        self.closed = True
        self.wake_all()
