"""The clerk: one thread that writes down what becomes of the certifications under way.

Certificates, progress and checkpoints go to Redis in pipelines of guarded calls. While Redis is away nothing is lost:
an end is sent again until it is answered, and one that had been carried out after all finds its guard closed; progress
and checkpoints are simply told anew a moment later.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

from smoothcert.problem import Failure
from store import transitions
from store.commands import Call
from workers.connection import AWAY, Server, until_answered
from workers.jobs import Work
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)


class Clerk:
    """Holds the works of this process and ends them in Redis; `take` and `cancel` may be called from any thread."""

    def __init__(self, server: Server, settings: WorkerSettings) -> None:
        self._server, self._settings = server, settings
        self._works: dict[str, Work] = {}
        self._ended: list[tuple[Work, int | None]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._told_at = -math.inf

    @property
    def works(self) -> list[Work]:
        """Those under way."""
        with self._changed:
            return list(self._works.values())

    def take(self, work: Work) -> None:
        """Look after this one from now on."""
        with self._changed:
            earlier = self._works.get(work.record.id)
            self._works[work.record.id] = work
            self._changed.notify_all()
        if earlier:  # an execution of ours that was thought dead
            earlier.stop()

    def prepared(self, work: Work) -> None:
        """This one has been begun, or could not be."""
        with self._changed:
            self._ended.append((work, None))
            self._changed.notify_all()

    def ended(self, work: Work, index: int) -> None:
        """An image of this one has ended; called in the engine's thread."""
        with self._changed:
            self._ended.append((work, index))
            self._changed.notify_all()

    def cancel(self, certification: str) -> None:
        """Somebody wants this one to end."""
        with self._changed:
            work = self._works.get(certification)
        if work:
            work.cancel()

    def wait_for_room(self, timeout: float) -> None:
        """Until one of all slots is free."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._works) < self._settings.slots or self._closed, timeout)

    def close(self) -> None:
        """Let `run` return once everything that has ended is written down."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- everything below runs in the clerk's thread

    def run(self) -> None:
        """Until closed."""
        while self._step():
            pass

    def _step(self) -> bool:
        news = self._news()
        touched = {}
        for work, index in news:
            touched[work.record.id] = work
            if index is not None and index in work.live:
                work.absorb(index)
        self._finish([work for work in touched.values() if work.ended and self._holds(work)])
        self._tell()
        with self._changed:
            return not self._closed or bool(self._ended)

    def _news(self) -> list[tuple[Work, int | None]]:
        """What has ended; waits for it, but not past the next time that progress is told."""
        with self._changed:
            if not (self._ended or self._closed):
                pause = self._settings.progress_s - (time.monotonic() - self._told_at)
                self._changed.wait(max(0.0, pause) if self._works else None)
            news, self._ended = self._ended, []
        return news

    def _holds(self, work: Work) -> bool:
        with self._changed:
            return self._works.get(work.record.id) is work

    def _finish(self, works: list[Work]) -> None:
        now = time.time()
        calls = [
            transitions.finish(
                work.record,
                work.execution,
                work.status,
                now=now,
                ttl=self._settings.result_ttl,
                certificates=work.unsaved,
                done=len(work.finished),
                progress=work.progress().model_dump_json(),
                error=work.failure,
                tally=work.tally(now),
            )
            for work in works
        ]
        for work, (written, status) in zip(works, self.send(calls), strict=True):
            extra = {"certification_id": work.record.id}
            if written:
                logger.info("%s, %d certificates", work.status, len(work.finished), extra=extra)
            else:  # somebody else has ended it, or this is the second time that the call was sent
                logger.warning("was %s already, the result is dropped", status or "deleted", extra=extra)
        self._drop(works)

    def _tell(self) -> None:
        """Progress of all that has come further, checkpoints of those whose time has come."""
        now = time.monotonic()
        if now - self._told_at < self._settings.progress_s:
            return
        self._told_at = now
        for work in self.works:
            if work.record.deadline_at and time.time() > work.record.deadline_at:
                work.fail(Failure(code="deadline_exceeded", detail="there was no answer before the deadline"))
        under_way = [work for work in self.works if work.prepared and not work.ended]
        told = [(work, call) for work in under_way if (call := self._saving(work, now)) is not None]
        try:
            replies = self._server.call([call for _, call in told])
        except AWAY as error:  # told again in a moment; the end of another must not wait for it
            logger.warning("Redis is away: %s", error)
            for work, _ in told:
                work.told_in_vain()
            return
        for (work, _), (written, status) in zip(told, replies, strict=True):
            work.unsaved = {}
            if not written:
                self._lose(work, status)
            elif status == "canceling":
                work.cancel()
            if work.suspect and work.further:
                work.record = replace(work.record, deaths=0)

    def _saving(self, work: Work, now: float) -> Call | None:
        progress = work.progress()
        due = now - work.saved_at >= self._settings.checkpoint_s
        if progress == work.told and not work.unsaved and not due:
            return None
        work.told = progress
        checkpoints = work.checkpoints() if due else {}
        if due:
            work.saved_at, work.samples_saved = now, work.samples
        return transitions.save(
            work.record,
            work.execution,
            progress=progress.model_dump_json(),
            samples=work.samples_saved if due else None,
            checkpoints=checkpoints,
            certificates=work.unsaved,
            done=len(work.finished),
        )

    def _lose(self, work: Work, status: str) -> None:
        """This certification is no longer ours: we were thought dead, or it was ended by somebody else."""
        logger.warning("is %s elsewhere, dropped", status or "deleted", extra={"certification_id": work.record.id})
        self._drop([work])
        work.cancel()

    def _drop(self, works: Iterable[Work]) -> None:
        with self._changed:
            for work in works:
                if self._works.get(work.record.id) is work:
                    del self._works[work.record.id]
            self._changed.notify_all()

    # --- of use to the others, too

    def hand_back(self) -> None:
        """Give all that is under way back to the queue, with its checkpoints; the clerk's thread must have ended."""
        works = self.works
        calls = []
        for work in works:
            kept = work.checkpoints()
            if work.unsaved:
                calls.append(self._certificates_of(work))
            calls.append(transitions.hand_back(work.record, work.execution, samples=work.samples, checkpoints=kept))
        self.send(calls)
        self._drop(works)
        for work in works:
            logger.info("handed back", extra={"certification_id": work.record.id})
            work.cancel()

    def _certificates_of(self, work: Work) -> Call:
        saved, work.unsaved = work.unsaved, {}
        return transitions.save(work.record, work.execution, certificates=saved, done=len(work.finished))

    def send(self, calls: list[Call]) -> list[tuple[bool, str]]:
        """Whether each call was carried out, and the status that it saw; sent as often as it takes."""
        return until_answered(lambda: self._server.call(calls))
