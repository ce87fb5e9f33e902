"""The clerk: one thread that writes to Redis how the certifications under way proceed and how they end.

Certificates, progress and checkpoints go to Redis in pipelines of guarded calls. Nothing is lost while Redis is away.
An end is sent again until it is answered; if it had been carried out after all, its guard is closed the second time.
Progress and checkpoints are made again a moment later.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import replace

from smoothcert.certification import Progress
from smoothcert.engine import range as ranges
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.figures import counted
from smoothcert.problem import Failure
from store import division, shards
from store.commands import Call
from store.transitions import endings, lease
from workers.connection import AWAY, RedisConnection, until_answered
from workers.lending import Lent
from workers.settings import WorkerSettings
from workers.work import Work

logger = logging.getLogger(__name__)

DIVIDE_S = 0.05
"""Seconds between two looks for idle workers. Only a worker that has something to give away looks for them."""


def _written(checkpoint: Checkpoint | None) -> str | None:
    return None if checkpoint is None else ranges.write(checkpoint)


class Clerk:
    """Holds the works of this process and ends them in Redis. Any thread may call the public methods."""

    def __init__(self, connection: RedisConnection, settings: WorkerSettings) -> None:
        self._connection, self._settings = connection, settings
        self._works: dict[str, Work] = {}  # by the names of their records
        self._ended: list[tuple[Work, int | None]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._reported_at = self._divided_at = -math.inf

    @property
    def works(self) -> list[Work]:
        """The certifications under way."""
        with self._changed:
            return list(self._works.values())

    def take(self, work: Work) -> None:
        """Look after a certification from now on. The clerk's thread has nothing to do for it before `prepared`."""
        with self._changed:
            earlier = self._works.get(work.record.name)
            self._works[work.record.name] = work
        if earlier:  # an earlier execution in this process, which was thought dead
            earlier.stop()

    def prepared(self, work: Work) -> None:
        """Note that a certification has been begun, or could not be."""
        with self._changed:
            self._ended.append((work, None))
            self._changed.notify_all()

    def ended(self, work: Work, index: int) -> None:
        """Note that an image has ended; called in the engine's thread."""
        with self._changed:
            self._ended.append((work, index))
            self._changed.notify_all()

    def cancel(self, name: str) -> None:
        """Cancel a certification, or the one that a shard belongs to."""
        for work in self.works:
            if name in (work.record.id, work.record.name):
                work.cancel()

    def wait_for_room(self, timeout: float) -> None:
        """Wait until a slot is free."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._works) < self._settings.slots or self._closed, timeout)

    def close(self) -> None:
        """Let `run` return once everything that has ended is written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- everything below runs in the clerk's thread

    def run(self) -> None:
        """Write until the clerk is closed."""
        while self._step():
            pass

    def _step(self) -> bool:
        news = self._news()
        touched = {}
        for work, index in news:
            touched[work.record.name] = work
            if index is not None and index in work.live:
                work.absorb(index)
        self._finish([work for work in touched.values() if work.ended and self._holds(work)])
        self._report()
        self._divide()
        with self._changed:
            return not self._closed or bool(self._ended)

    def _news(self) -> list[tuple[Work, int | None]]:
        """What has ended. Waits for it, but not past the time of the next report."""
        with self._changed:
            if not (self._ended or self._closed):
                pause = self._settings.progress_s - (time.monotonic() - self._reported_at)
                self._changed.wait(max(0.0, pause) if self._works else None)
            news, self._ended = self._ended, []
        return news

    def _holds(self, work: Work) -> bool:
        with self._changed:
            return self._works.get(work.record.name) is work

    def _finish(self, works: list[Work]) -> None:
        now = time.time()
        calls = [
            endings.end_range(work.record, work.execution, checkpoint=_written(work.counted), credited=True)
            if work.record.range
            else endings.finish(
                work.record,
                work.execution,
                work.status,
                now=now,
                ttl=self._settings.result_ttl,
                certificates=work.unsaved,
                progress=work.progress().model_dump_json(),
                error=work.failure,
                tally=work.tally(),
                end_tally=work.end_tally(now),
            )
            for work in works
        ]
        for work, (written, status) in zip(works, self.send(calls), strict=True):
            extra = {"certification_id": work.record.id}
            if written:
                logger.info("%s, %s", work.status, counted(len(work.finished), "certificate"), extra=extra)
            else:  # another process has ended it, or the call was sent a second time
                logger.warning("was %s already, the result is dropped", status or "deleted", extra=extra)
            work.end_trace(work.status if written else "lost")
        self._drop(works)

    def _report(self) -> None:
        """Send the progress of all works that have come further, and the checkpoints that are due."""
        now = time.monotonic()
        if now - self._reported_at < self._settings.progress_s:
            return
        self._reported_at = now
        for work in self.works:
            if work.record.deadline_at and time.time() > work.record.deadline_at:
                work.fail(Failure(code="deadline_exceeded", detail="there was no answer before the deadline"))
        under_way = [work for work in self.works if work.prepared and not work.ended]
        reports = [(work, call) for work in under_way if (call := self._saving(work, now)) is not None]
        try:
            replies = self._connection.call([call for _, call in reports])
        except AWAY as error:  # sent again in a moment, so that the end of another work does not wait for it
            logger.warning("Redis does not answer: %s", error)
            for work, _ in reports:
                work.report_again()
            return
        for (work, _), (written, status) in zip(reports, replies, strict=True):
            self._note(work, written, status)

    def _note(self, work: Work, written: bool, status: str) -> None:
        """Note what became of a report."""
        work.unsaved = {}
        if not written:
            self._lose(work, status)
        elif status == "canceling":
            work.cancel()
        if work.suspect and work.further:
            work.record = replace(work.record, deaths=0)

    def _divide(self) -> None:
        """Give images of a work to an idle worker, or samples of an image, if there are both; take what came back."""
        now, name = time.monotonic(), uuid.uuid4().hex[:8]
        if now - self._divided_at < DIVIDE_S:
            return
        works = [work for work in self.works if work.spare or work.awaited or work.spare_samples(name)]
        if not works:
            return
        self._divided_at = now
        awaited = [(work, index, lent) for work in works for index, lent in work.awaited]
        try:
            idle, *counted = self._connection.run(
                [
                    division.count_idle(self._settings.pool, now=time.time()),
                    *(division.read_range(work.record.id, lent.shard) for work, _, lent in awaited),
                ]
            )
        except AWAY as error:
            logger.warning("Redis does not answer: %s", error)
            return
        for (work, index, _), text in zip(awaited, counted, strict=True):
            work.receive(index, text)
        largest = max(works, key=lambda work: len(work.spare))
        if idle and largest.spare:
            self._give(largest, name)
        elif idle and (parts := [(work, *found) for work in works if (found := work.spare_samples(name))]):
            self._lend(*parts[0])

    def _lend(self, work: Work, index: int, lent: Lent) -> None:
        """Let an idle worker draw a part of what is left of a draw."""
        call = division.give_range(
            work.record,
            work.execution,
            lent.shard,
            place=index,
            start=lent.start,
            stop=lent.stop,
            checkpoint=ranges.write(lent.begins),
            now=time.time(),
        )
        ((given, _),) = self.send([call])
        if given:
            work.lend(index, lent)
            logger.info("lent the samples %s", lent.offered, extra={"certification_id": work.record.id})

    def _give(self, work: Work, name: str) -> None:
        """Save everything about a work and give half of its images away, in one round trip."""
        if not (given := work.spare):
            return
        saving = self._save(work, time.monotonic(), work.progress(), due=True)
        places = sorted(set(work.record.place_list) - set(given))
        samples = work.samples_of(given)
        left = max(0, work.samples_saved - samples)
        call = division.divide(
            work.record,
            work.execution,
            name,
            kept=places,
            given=given,
            samples_kept=left,
            samples_given=samples,
            further=work.further,
            now=time.time(),
        )
        (written, status), (divided, _) = self.send([saving, call])
        self._note(work, written, status)
        if divided:
            work.give(given, kept=shards.write_places(places), samples=left)
            logger.info("gave away %d images", len(given), extra={"certification_id": work.record.id})

    def _saving(self, work: Work, now: float) -> Call | None:
        """The call that saves what is new of a work; None where nothing is."""
        if work.record.range:
            return self._asking(work, now)
        progress = work.progress()
        due = now - work.saved_at >= self._settings.checkpoint_s
        if progress == work.reported and not work.unsaved and not due:
            return None
        return self._save(work, now, progress, due=due)

    def _save(self, work: Work, now: float, progress: Progress, *, due: bool) -> Call:
        """The call that saves what is new of a work, its checkpoints if they are due; it must be sent."""
        work.reported = progress
        checkpoints = work.checkpoints() if due else {}
        if due:
            work.saved_at, work.samples_saved = now, work.samples
        return lease.save(
            work.record,
            work.execution,
            progress=progress.model_dump_json(),
            samples=work.samples_saved if due else None,
            checkpoints=checkpoints,
            certificates=work.unsaved,
        )

    def _asking(self, work: Work, now: float) -> Call | None:
        """The call by which the worker of a range learns if it is still wanted. It saves nothing before its end."""
        if now - work.saved_at < self._settings.checkpoint_s:
            return None
        work.saved_at, work.samples_saved = now, work.samples
        return lease.beat(work.record, work.execution, ttl=self._settings.dead_after_s)

    def _lose(self, work: Work, status: str) -> None:
        """Drop a certification that is no longer ours: we were thought dead, or another process has ended it."""
        logger.warning("is %s elsewhere, dropped", status or "deleted", extra={"certification_id": work.record.id})
        self._drop([work])
        work.end_trace("lost")
        work.cancel()

    def _drop(self, works: Iterable[Work]) -> None:
        with self._changed:
            for work in works:
                if self._works.get(work.record.name) is work:
                    del self._works[work.record.name]
            self._changed.notify_all()

    # --- for other threads, too

    def hand_back(self) -> None:
        """Give everything under way back to the queue with its checkpoints; the clerk's thread must have ended."""
        works = self.works
        calls = []
        for work in works:
            kept = work.checkpoints()
            if work.unsaved:
                calls.append(self._certificates_of(work))
            calls.append(lease.hand_back(work.record, work.execution, samples=work.samples, checkpoints=kept))
        self.send(calls)
        self._drop(works)
        for work in works:
            logger.info("handed back", extra={"certification_id": work.record.id})
            work.end_trace("handed-back")
            work.cancel()

    def _certificates_of(self, work: Work) -> Call:
        saved, work.unsaved = work.unsaved, {}
        return lease.save(work.record, work.execution, certificates=saved)

    def send(self, calls: list[Call]) -> list[tuple[bool, str]]:
        """Whether each call was carried out, and the status that it saw. Sends until Redis answers."""
        return until_answered(lambda: self._connection.call(calls))
