"""The worker: takes certifications from a queue of RQ's, several at a time, and feeds them to its engines.

Each thread has one task. The main thread takes work. An engine owns the device. The clerk writes records. The pulse
sends heartbeats and lets the janitor sweep. The watchdog checks that batches end. Certifications that are slow to begin
are prepared in threads of their own. RQ's thread listens for its commands. A thread that fails ends the process: a
supervisor starts another one, and nothing is lost.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rq import SimpleWorker
from rq.serializers import JSONSerializer

from smoothcert.certification import Status
from smoothcert.engine.errors import ClosedError
from smoothcert.engine.sizing import USUAL
from smoothcert.problem import Failure
from store import bookkeeping, presence, waiting
from store.commands import unguarded
from store.presence import Presence, Speed
from store.record import Record
from store.transitions import endings, lease
from store.transitions.lease import Beginning
from store.waiting import Looking
from workers.clerk import Clerk
from workers.connection import AWAY, Answer, RedisConnection, refused_is_away, until_answered
from workers.engines import Engines
from workers.errors import ClockError
from workers.holdings import Holdings
from workers.janitor import Janitor
from workers.jobs import Stored, certify
from workers.notice import tell_ready
from workers.passed import Passed
from workers.settings import WorkerSettings
from workers.taken import TakenJob, fetch
from workers.work import Work

if TYPE_CHECKING:
    from store.traces import Traces

logger = logging.getLogger(__name__)

BLOCK_S = 1
"""Seconds for which a look at an empty queue lasts: a worker that is told to leave does so after this time."""
IDLE_S = 2 * BLOCK_S
"""Seconds for which a worker counts, as idle or as one that shares what waits, if it does not look again."""
BLOCKED_S = 0.1
"""Seconds between two looks while what waits must not be taken yet, because its owner has its share or it is large."""
LISTEN_AGAIN_S = 2.0
"""Seconds after which the thread that listens for RQ's commands tries again when Redis was away."""
MEGABYTE = 1_000_000
PREPARING = 2
"""The number of certifications that are slow to begin and are prepared at a time; more would starve the engine."""
FAREWELL_S = 5.0
"""Seconds for the last calls to Redis when a worker leaves."""
CRASHED = 70
"""The exit code of a process that ended itself: EX_SOFTWARE of sysexits.h."""


class CertificationWorker(SimpleWorker):
    """A worker that registers, sends heartbeats and takes commands as those of RQ do, but runs jobs in its own way."""

    def __init__(
        self, redis: RedisConnection, settings: WorkerSettings, holdings: Holdings, traces: Traces | None = None
    ) -> None:
        self.redis, self.settings, self.holdings, self.traces = redis, settings, holdings, traces
        self.queue, self.quarantine = (
            bookkeeping.queue_name(settings.pool),
            bookkeeping.quarantine_name(settings.pool),
        )
        super().__init__(
            [self.queue, self.quarantine],
            name=f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}",  # new at every start, since RQ refuses a used name
            connection=redis.client,
            serializer=JSONSerializer,
            worker_ttl=max(30, settings.dead_after_s),
        )
        self.engines = Engines(holdings, batch=settings.batch or max(USUAL, holdings.rows))
        self.clerk = Clerk(redis, settings)
        self.janitor = Janitor(redis, settings, self.name)
        self.leaving = threading.Event()
        self.hurried = threading.Event()
        self.done = threading.Event()
        self._last_look_at_quarantine = -math.inf
        self._preparing = threading.Semaphore(PREPARING)
        self._passed = Passed()

    def serve(self) -> None:
        """Work until SIGTERM or SIGINT; then finish what is under way or hand it back."""
        self._require_clock()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        until_answered(lambda: self.redis.write(bookkeeping.birth(self)))
        until_answered(self.subscribe)
        clerk = self._start("clerk", self.clerk.run)
        self._start("watchdog", self._watch)
        until_answered(self._beat)
        tell_ready()
        self._start("pulse", self._pulse)
        logger.info("worker %s serves %s", self.name, self.queue)
        while not self.leaving.is_set():
            try:
                with refused_is_away():
                    self._take_work()
            except AWAY as error:
                logger.warning("Redis does not answer: %s", error)
                self.leaving.wait(0.5)
        self._leave(clerk)

    def _require_clock(self) -> None:
        """Refuse to start if our clock differs too much from that of Redis: other workers would take us for dead.

        The smallest of three differences counts, because a slow answer looks like a difference.
        """
        looks = [until_answered(lambda: self.redis.clock_difference(time.time())) for _ in range(3)]
        if abs(difference := min(looks, key=abs)) > self.settings.dead_after_s / 2:
            raise ClockError(
                f"the clock of Redis differs from that of this machine by {difference:+.1f} s: set one of them"
            )

    # --- taking work

    def _take_work(self) -> None:
        works = self.clerk.works
        free = self.settings.slots - len(works)
        if free <= 0:
            self.clerk.wait_for_room(BLOCK_S)
            return
        self._look_at_quarantine()
        now, passed = time.time(), tuple(self._passed)
        beginning = lease.beginning(self.queue, self.name, now=now, ttl=self.settings.dead_after_s)
        choosy = bool(passed or self.holdings.failed)
        call = waiting.take(
            self.settings.pool,
            most=free,
            most_bytes=self.settings.work_mb * MEGABYTE - sum(work.record.size for work in works),
            busy=bool(works),
            share=self.settings.share,
            held=Counter(work.record.owner for work in works),
            under_way={work.record.id for work in works},
            passed=passed,
            idle=None if works or choosy else (self.name, now + IDLE_S),
            among=None if choosy else Looking(self.name, now, now + IDLE_S),
            holds=self.holdings.names,
            begin=beginning.commands,
        )
        blocked, ids = waiting.taken(self.redis.eval(call))
        if ids:
            self._begin(self._answered(lambda: fetch(self.redis, ids)), self.queue, beginning)
        if len(ids) < free:  # the bell tells of new work, but not that what may not be taken now may be taken later
            self.redis.await_bell(self.settings.pool, self.name, BLOCKED_S if blocked else BLOCK_S)

    def _look_at_quarantine(self) -> None:
        """Take one suspect, and begin nothing beside it: if this worker dies, the suspect is to blame."""
        now = time.monotonic()
        if now - self._last_look_at_quarantine < BLOCK_S / 2:
            return
        self._last_look_at_quarantine = now
        if not self.redis.client.llen(bookkeeping.waiting_key(self.quarantine)):
            return
        self._pause_until(lambda: all(work.further for work in self.clerk.works))
        if self.leaving.is_set():
            return
        suspect = self.redis.eval(waiting.take_suspect(self.settings.pool))
        self._begin(fetch(self.redis, [suspect.decode()] if suspect else []), self.quarantine)
        self._pause_until(lambda: not any(work.suspect for work in self.clerk.works))

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        """The answer to a call without which what was taken is not begun. A worker that leaves does not wait for it:
        the janitor of another one lets it wait again."""
        return until_answered(ask, unless=self.leaving.is_set)

    def _pause_until(self, true: Callable[[], bool]) -> None:
        while not (self.leaving.is_set() or true()):
            self.leaving.wait(0.05)

    def _begin(self, jobs: list[TakenJob], queue: str, beginning: Beginning | None = None) -> None:
        """Begin what the look has not begun already, give each a heartbeat, and hand them to the engine."""
        execution, now = (beginning.execution, beginning.now) if beginning else (None, time.time())
        ready = [stored for each in jobs if (stored := self._check(each, queue, execution)) is not None]
        ours = [stored for stored in ready if stored.record.execution == execution]
        ours += self._registered([stored for stored in ready if stored.record.execution != execution], now)
        works = [self._keep_alive(stored.record, now) for stored in ours]
        for work, stored in zip(works, ours, strict=True):
            self._hand_over(work, stored)

    def _registered(self, ready: list[Stored], now: float) -> list[Stored]:
        """Begin what was only taken, in one pipeline. Returns what is ours, as it is from now on."""
        ttl = self.settings.dead_after_s
        begun = [lease.begin(stored.record, self.name, now=now, ttl=ttl) for stored in ready]
        answers = self._answered(lambda: self.redis.call([call for _, call in begun]))
        ours = []
        for stored, (execution, _), (begins, status) in zip(ready, begun, answers, strict=True):
            if begins or (status == "running" and self._is_ours(stored.record.name, execution)):
                known: Status = "canceling" if status == "canceling" else "running"  # a shard may wait meanwhile
                record = replace(stored.record, status=known, execution=execution, worker=self.name)
                ours.append(replace(stored, record=replace(record, started_at=record.started_at or now)))
        return ours

    def _is_ours(self, name: str, execution: str) -> bool:
        """Whether a call that was sent twice, because its first answer was lost, had begun this execution."""
        record = self._answered(lambda: self.redis.record(name))
        return record is not None and record.execution == execution

    def _keep_alive(self, record: Record, now: float) -> Work:
        """Give a certification a heartbeat; this comes before anything that takes time."""
        work = Work(record, record.execution, canceled=record.status == "canceling")
        if self.traces is not None:
            work.stretch = self.traces.begin(record, now=now)
        self.clerk.take(work)
        return work

    def _hand_over(self, work: Work, stored: Stored) -> None:
        """Hand a certification to the engine, from a thread of its own where the preparation takes long."""
        if stored.record.slow_to_begin:
            threading.Thread(target=self._prepare_slowly, args=(work, stored), name="preparing", daemon=True).start()
        else:
            self._prepare(work, stored)

    def _prepare(self, work: Work, stored: Stored) -> None:
        engine = self.engines.of(stored.record.ensemble)
        certify(work, stored, engine=engine, holdings=self.holdings, ended=self.clerk.ended)
        self.clerk.prepared(work)

    def _prepare_slowly(self, work: Work, stored: Stored) -> None:
        with self._preparing, suppress(ClosedError):  # the process is leaving and has handed it back
            self._prepare(work, stored)

    def _check(self, taken: TakenJob, queue: str, execution: str | None) -> Stored | None:
        """What can be begun, or was begun by the look as `execution`. A job that is not ours is refused, one that has
        ended is dropped, and one whose ensemble is not held here waits for a worker that holds it."""
        name, job, stored = taken.name, taken.job, taken.stored
        extra = {"certification_id": name}
        begun = stored is not None and stored.record.execution == execution
        if stored is None or not (begun or (stored.record.status == "queued" and stored.record.queue == queue)):
            if job and stored is None:
                logger.error("a job without a record is refused: %s", name, extra=extra)
                self.redis.write(lease.refuse(name, queue))
            else:
                self.redis.call([lease.drop(name, queue)])
            return None
        try:
            bookkeeping.check(job, name)
        except bookkeeping.ForeignJobError as error:
            logger.error("refused: %s", error, extra=extra)
            if begun:
                failure = Failure(code="internal", detail=f"the job is not one of ours: {error}")
                self.redis.call([endings.give_up(stored.record, stored.record.execution, failure)])
            self.redis.write(lease.refuse(name, queue))
            return None
        if not self.holdings.has(stored.record.ensemble):
            logger.warning("waits for a worker that holds %s", stored.record.ensemble, extra=extra)
            self._passed.add(stored.record.id)
            self.redis.call([lease.put_back(stored.record)])
            return None
        return stored

    # --- heart, commands, watchdog

    def _pulse(self) -> None:
        """Send heartbeats and sweep. If our own is late, Redis stood still, and those of others may be late, too."""
        late, last = self.settings.heartbeat_s + self.settings.dead_after_s / 3, time.monotonic()
        while not self.done.wait(self.settings.heartbeat_s):
            try:
                with refused_is_away():
                    self._beat()
                    before, last = last, time.monotonic()
                    if last - before > late:
                        self.janitor.lost_touch()
                    self.janitor.sweep()
            except AWAY as error:
                logger.warning("Redis does not answer: %s", error)
                self.janitor.lost_touch()

    def _beat(self) -> None:
        works, ttl = self.clerk.works, self.settings.dead_after_s
        commands = presence.announce(self._presence(len(works)), ttl=ttl)
        commands += bookkeeping.heartbeat(self, ttl=ttl + 60)
        commands.append(bookkeeping.show_state(self.name, busy=bool(works)))
        beats = [lease.beat(work.record, work.execution, ttl=ttl) for work in works]
        self.redis.call([unguarded(commands), *beats])

    def _presence(self, live: int) -> Presence:
        return Presence(
            name=self.name,
            pool=self.settings.pool,
            device=self.engines.device,
            ensembles=self.holdings.cards,
            failed=self.holdings.failed,
            live=live,
            fill=self.engines.fill,
            speeds={
                name: Speed(evaluations_per_second=pace.per_second, rows=pace.rows)
                for name, pace in self.engines.paces.items()
                if pace.per_second
            },
            beat_at=(now := time.time()),
            dead_at=now + self.settings.dead_after_s,
            heartbeat_s=self.settings.heartbeat_s,
        )

    def handle_payload(self, message: dict[str, Any]) -> None:
        """Obey a command from RQ: stop a job, or leave."""
        try:
            payload = json.loads(message["data"])
            command, certification = payload["command"], payload.get("job_id")
        except (ValueError, KeyError, TypeError, AttributeError):
            logger.warning("a command from RQ cannot be read: %.200r", message.get("data"))
            return
        if command == "stop-job":
            self.clerk.cancel(str(certification))
        elif command == "shutdown":
            self.leaving.set()

    def _pubsub_exception_handler(self, exc: Exception, *_: object) -> None:
        """Go on listening for commands, whatever the server says; redis-py subscribes again when it has reconnected."""
        logger.warning("commands from RQ are not received: %s", exc)
        time.sleep(LISTEN_AGAIN_S)

    def _watch(self) -> None:
        """End the process if no batch ends although there is work: heartbeats do not prove that the device moves.

        Looks are counted and not seconds, because in a process that was stopped for a while the device was stopped,
        too. Looks at an idle worker do not count. New work does not reset the count, because it may keep coming while
        the device hangs.
        """
        pause = min(1.0, self.settings.watchdog_s / 4)
        while not self.done.wait(pause):
            waiting = {work.record.ensemble for work in self.clerk.works if work.wants_samples}
            if self.engines.stillness(waiting, pause) > self.settings.watchdog_s:
                logger.critical("no batch has ended for %g s: the process ends itself", self.settings.watchdog_s)
                os._exit(CRASHED)

    # --- leaving

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.leaving.is_set():
            self.hurried.set()
        self.leaving.set()

    def _leave(self, clerk: threading.Thread) -> None:
        """Finish what ends soon, and hand back the rest with its checkpoints."""
        logger.info("worker %s leaves, %d certifications under way", self.name, len(self.clerk.works))
        self._start("escape", self._escape)
        deadline = time.monotonic() + self.settings.drain_s
        while self.clerk.works and time.monotonic() < deadline and not self.hurried.is_set():
            time.sleep(0.05)
        self.clerk.close()
        clerk.join()
        self.clerk.hand_back()
        self.done.set()
        try:
            with refused_is_away():
                farewell = [*presence.leave(self.name), *waiting.look_no_more(self.settings.pool, self.name)]
                self.redis.write([*farewell, *bookkeeping.death(self)])
                self.unsubscribe()  # type: ignore[no-untyped-call]
        except AWAY:
            logger.warning("Redis does not answer: the worker leaves without signing off")
        self.engines.close()

    def _escape(self) -> None:
        """End the process if Redis is away for too long; checkpoints make that safe."""
        self.hurried.wait(self.settings.drain_s + FAREWELL_S)
        if not self.done.wait(FAREWELL_S):
            logger.error("Redis does not answer: the process ends without having handed back its work")
            os._exit(CRASHED)

    def _start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def work_or_end() -> None:
            try:
                work()
            except BaseException:
                logger.critical("the %s failed: the process ends itself\n%s", name, traceback.format_exc())
                sys.stderr.flush()
                os._exit(CRASHED)

        thread = threading.Thread(target=work_or_end, name=name, daemon=True)
        thread.start()
        return thread
