"""The archivist: writes what has ended to the archive and erases what was deleted, in the background of an API process.

The API does this and not the workers: they have no way out of their network. All API processes share the work; what one
has in hand when it dies, another takes up after a minute. An archive that is away or full delays nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.answers import certifications as answers
from app.answers.attestations import Attester
from app.archive.archive import Archive
from app.archive.storage import StorageError
from app.archive.threads import ArchiveThreads
from app.background import Background
from app.http.errors import ProblemError, UnavailableError
from app.redis.queue import Queue
from app.redis.snapshot import Snapshot
from smoothcert.errors import AttestationError
from store import archival
from store.archival import ArchiveClaim
from store.commands import Call, unguarded

LOOK_S = 0.5
"""Seconds between two looks where nothing is to be written."""
AT_A_TIME = 4
"""The number of certifications that are written at a time; one, while the archive refuses."""
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until the next attempt after each refusal in a row; the last is for all further ones."""

logger = logging.getLogger(__name__)


class Archivist:
    """Takes what is due, several at a time."""

    def __init__(self, queue: Queue, archive: Archive, threads: ArchiveThreads, attester: Attester) -> None:
        self._queue, self._archive, self._threads, self._attester = queue, archive, threads, attester
        self._background = Background[ArchiveClaim]()
        self._refusals = 0
        self.trouble = ""
        """Why the last attempt of this process failed; empty if it did not."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A context in which the archive catches up. What is under way at its end is done by another process."""
        try:
            async with self._background.running(self._run()):
                yield
        finally:
            self._threads.close()

    async def _run(self) -> None:
        while not self._background.closed:
            found = await self._claim()
            for claim in found:
                self._background.start(claim, self._settle(claim))
            if not found:
                await self._background.pause(LOOK_S)
            elif self._refusals:
                await self._background.pause(self._pause)
            else:
                await self._background.one_is_done()

    @property
    def _pause(self) -> float:
        return PAUSES_S[min(max(self._refusals, 1), len(PAUSES_S)) - 1]

    async def _claim(self) -> list[ArchiveClaim]:
        free = (1 if self._refusals else AT_A_TIME) - len(self._background.under_way)
        if free <= 0:
            return []
        try:
            return archival.claimed(await self._queue.ask(archival.claim(most=free)))
        except UnavailableError:
            return []
        except Exception:  # the API goes on, and so does the archivist
            logger.exception("nothing can be claimed for the archive")
            return []

    async def _settle(self, claim: ArchiveClaim) -> None:
        try:
            call = await (self._erase(claim) if claim.owner else self._write(claim))
            self._refusals, self.trouble = 0, ""
        except UnavailableError:  # the lease ends, and it is claimed again
            return
        except StorageError as error:
            self._refusals += 1
            self._note(claim, str(error), self._pause)
            call = unguarded(archival.again(claim.certification, pause=self._pause))
        except Exception as error:  # it concerns this certification alone, and the others do not wait for it
            logger.exception("cannot be archived", extra=_extra(claim))
            self._note(claim, f"{claim.certification}: {type(error).__name__}: {error}", PAUSES_S[-1])
            call = unguarded(archival.again(claim.certification, pause=PAUSES_S[-1]))
        try:
            await self._queue.ask(call)
        except UnavailableError:
            logger.warning("Redis does not know what the archive has, so it is written again", extra=_extra(claim))

    def _note(self, claim: ArchiveClaim, reason: str, pause: float) -> None:
        self.trouble = reason
        logger.warning("not archived, tried again in %.0f s: %s", pause, reason, extra=_extra(claim))

    async def _erase(self, claim: ArchiveClaim) -> Call:
        await self._threads.run(lambda: self._archive.erase(claim.certification, owner=claim.owner))
        return archival.erased(claim)

    async def _write(self, claim: ArchiveClaim) -> Call:
        snapshot = await self._queue.find(claim.certification)
        if snapshot is None or not snapshot.record.ended:  # deleted a moment ago, or lost with the data of Redis
            logger.warning("is not in Redis any more, and not archived", extra=_extra(claim))
            return archival.dropped(claim.certification)
        record, now = snapshot.record, snapshot.record.finished_at
        text, summary = answers.certification(snapshot, now=now), answers.summary(record, None, now=now)
        signed = await self._signed(snapshot)
        images = await self._queue.images(record.id) if record.archives_images else None
        await self._threads.run(lambda: self._archive.write(record, text, summary, signed, images))
        return archival.written(record)

    async def _signed(self, snapshot: Snapshot) -> str | None:
        """The attestations of a certification; None if the service has no key, or if it cannot be signed."""
        if not (self._attester.signs and snapshot.certificates):
            return None
        texts = [snapshot.certificates[index] for index in sorted(snapshot.certificates)]
        try:
            return await self._attester.attest(texts)
        except (AttestationError, ProblemError) as error:
            if isinstance(error, ProblemError) and error.code != "not_acceptable":  # the signer is busy
                raise
            logger.warning("is archived without a signature: %s", error, extra={"certification_id": snapshot.record.id})
            return None


def _extra(claim: ArchiveClaim) -> dict[str, object]:
    return {"certification_id": claim.certification}
