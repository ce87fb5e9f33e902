"""The janitor: finds the certifications of workers that died and gives them to others.

Every worker has one; a short lock in Redis lets one at a time sweep. Where a worker died with several certifications,
any of them may have killed it: all become suspects, which wait in quarantine and are taken one at a time, beside such
as have come further. If a worker dies with a suspect, the suspect alone is to blame. A certification that has come
further than its last checkpoint is no suspect any more.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable

from rq.worker_registration import clean_worker_registry

from store import bookkeeping, keys, transitions
from store.commands import Call
from store.presence import REMEMBERED, Offer
from store.record import Record
from workers.connection import Server
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 2.0
"""Between this clock and that of Redis; beyond it, heartbeats that others wrote cannot be judged here."""


class Janitor:
    """Sweeps the queues of one pool."""

    def __init__(self, server: Server, settings: WorkerSettings, name: str) -> None:
        self._server, self._settings, self._name = server, settings, name
        self._queues = (bookkeeping.queue_name(settings.pool), bookkeeping.quarantine_name(settings.pool))
        self._seen: dict[tuple[str, str], float] = {}  # ids that were taken and not begun, since when
        self._in_touch_since = time.monotonic()
        self._agreed = True

    def lost_touch(self) -> None:
        """Redis was away or stood still: nobody could send a heartbeat, so nobody is judged dead for a while."""
        self._in_touch_since = time.monotonic()

    def sweep(self) -> None:
        """Once, if nobody else is at it."""
        now, pause = time.time(), max(1, self._settings.dead_after_s // 3)
        if time.monotonic() - self._in_touch_since < self._settings.dead_after_s or not self._clocks_agree(now):
            return
        if not self._server.client.set(f"{keys.JANITOR}:{self._settings.pool}", self._name, nx=True, ex=pause):
            return
        self._bury_the_dead(now)
        for queue in self._queues:
            self._return_what_was_never_begun(queue)
            self._server.client.zremrangebyscore(bookkeeping.queue(queue).failed_job_registry.key, 0, time.time())
        self._forget_ensembles()
        clean_worker_registry(bookkeeping.queue_at(self._queues[0], self._server.client))

    def _clocks_agree(self, now: float) -> bool:
        """Whether it is the same time here and there; an answer that takes as long is as bad."""
        difference = self._server.clock_difference(now)
        agree = abs(difference) <= CLOCKS_DIFFER_S
        if self._agreed and not agree:
            logger.warning("the clock of Redis is %+.1f s from ours: nobody is judged dead from here", difference)
        self._agreed = agree
        return agree

    def _forget_ensembles(self) -> None:
        """Those that nobody has served for long."""
        offers: dict[bytes, bytes] = self._server.client.hgetall(keys.ENSEMBLES)
        oldest = time.time() - REMEMBERED
        old = [name for name, text in offers.items() if (offer := Offer.salvage(text)) and offer.seen_at < oldest]
        if old:
            self._server.client.hdel(keys.ENSEMBLES, *old)

    def _bury_the_dead(self, now: float) -> None:
        """Those who were dead when the sweep began: if Redis stood still since, nobody could send a heartbeat."""
        expired = [entry for queue in self._queues for entry in self._expired(queue, now)]
        orphans: dict[str, list[Record]] = defaultdict(list)
        for queue, certification, execution in expired:
            record = self._server.record(certification)
            if record is not None and record.execution == execution and not record.ended:
                orphans[record.worker].append(record)
            else:  # it has gone on elsewhere, or ended: only RQ's registry still knows this execution
                self._server.run(bookkeeping.end(certification, queue, execution))
        for worker, records in orphans.items():
            logger.warning("worker %s is dead, it had %d certifications", worker, len(records))
            self._server.call(list(self._burials(records)))

    def _burials(self, records: list[Record]) -> Iterable[Call]:
        suspects = [record for record in records if record.deaths and not record.advanced]
        now, ttl = time.time(), self._settings.result_ttl
        for record in records:
            blamed = record in suspects or not suspects
            yield transitions.bury(record, blamed=blamed, now=now, ttl=ttl)

    def _expired(self, queue: str, now: float) -> list[tuple[str, str, str]]:
        """(queue, certification, execution) of each execution without a heartbeat."""
        entries = self._server.client.zrangebyscore(bookkeeping.started_key(queue), 0, now)
        return [(queue, *entry.decode().rsplit(":", 1)) for entry in entries]

    def _return_what_was_never_begun(self, queue: str) -> None:
        """Ids that a worker took and did not begin for long: it died in between."""
        now = time.monotonic()
        taken = [entry.decode() for entry in self._server.client.lrange(bookkeeping.taken_key(queue), 0, -1)]
        self._seen = {name: since for name, since in self._seen.items() if name[0] != queue or name[1] in taken}
        for certification in taken:
            since = self._seen.setdefault((queue, certification), now)
            if now - since < self._settings.dead_after_s:
                continue
            del self._seen[queue, certification]
            self._return(certification, queue)

    def _return(self, certification: str, queue: str) -> None:
        record = self._server.record(certification)
        if record is None or record.status != "queued" or record.queue != queue:
            self._server.run(transitions.drop(certification, queue))
            return
        logger.warning("was taken and never begun, waits again", extra={"certification_id": certification})
        self._server.call([transitions.put_back(record)])
