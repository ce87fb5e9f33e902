"""Reading the archive: a certification that Redis no longer has, and lists of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.answers import certifications as answers
from app.archive.archive import Archive, ArchiveEntry, DamagedError, EntryPage, KeptCertification
from app.archive.storage import StorageError
from app.archive.threads import ArchiveThreads
from app.http.errors import ProblemError
from app.redis.cursor import Cursor
from app.redis.listing import Page
from app.redis.queue import Queue
from smoothcert.certification import Status
from store import archival
from store.commands import unguarded

RETRY_SECONDS = 10
"""The Retry-After where the archive does not answer."""


class ArchiveReader:
    """Reads the archive. A deleted certification is not found, even while the archive still has it."""

    def __init__(self, queue: Queue, archive: Archive, threads: ArchiveThreads) -> None:
        self._queue, self._archive, self._threads = queue, archive, threads

    async def find(self, certification: str, *, owner: str) -> KeptCertification | None:
        """A certification of this owner."""
        if await self._queue.erased([certification]):
            return None
        with _as_problems():
            return await self._threads.run(lambda: self._archive.find(certification, owner=owner))

    async def delete(self, certification: str, *, owner: str) -> None:
        """Delete a certification that the archive alone has: from now on nobody finds it, and soon it is erased."""
        await self._queue.ask(unguarded(archival.erase(certification, owner)))

    async def page(
        self, page: Page, owner: str, *, status: Status | None, limit: int, after: Cursor | None, now: float
    ) -> tuple[list[str], Cursor | None]:
        """The summaries of a page of Redis together with those of the archive, and where the next page begins."""
        with _as_problems():
            kept = await self._threads.run(lambda: self._archive.page(owner, status=status, limit=limit, after=after))
        gone = await self._queue.erased([each.cursor.certification for each in kept.entries])
        present = [
            ArchiveEntry(
                Cursor(each.record.created_at, each.record.id), answers.summary(each.record, each.position, now=now)
            )
            for each in page.snapshots
        ]
        return merged(present, page.next, kept, gone, limit=limit)


def merged(
    present: Sequence[ArchiveEntry], following: Cursor | None, kept: EntryPage, gone: set[str], *, limit: int
) -> tuple[list[str], Cursor | None]:
    """One list of two, the newest first, in which nothing comes twice.

    Each of the two is complete down to where its own next page begins, so the list ends where the first of them does.
    """
    ends = [each for each in (following, kept.next) if each is not None]
    end = max(ends, default=None)
    here = {each.cursor.certification for each in present} | gone
    found = [*present, *(each for each in kept.entries if each.cursor.certification not in here)]
    found = sorted((each for each in found if end is None or each.cursor >= end), key=lambda each: each.cursor)[::-1]
    if len(found) > limit:
        found = found[:limit]
        end = found[-1].cursor
    return [each.summary for each in found], end


@contextmanager
def _as_problems() -> Iterator[None]:
    """Turn what is wrong with the archive into a problem."""
    try:
        yield
    except StorageError as error:
        detail = f"the archive does not answer: {error}"
        raise ProblemError("unavailable", detail, retry_after=RETRY_SECONDS) from error
    except DamagedError as error:
        raise ProblemError("archive_damaged", str(error)) from error
