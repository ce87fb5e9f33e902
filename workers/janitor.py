"""The janitor: finds the certifications of workers that died and gives them to others.

Every worker has a janitor; a short lock in Redis lets one at a time sweep. Where a worker died with several
certifications, any of them may have killed it, so all become suspects. Suspects wait in quarantine and are taken one at
a time, beside certifications that have made progress. If a worker dies with a suspect, the suspect alone is blamed. A
certification that comes further than its last checkpoint is not a suspect any more.

A worker that lives may have begun a certification without learning of it, since answers can be lost. Nobody is blamed
then, and it waits again.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable

from rq.worker_registration import clean_worker_registry

from store import bookkeeping, keys
from store.commands import Call, Command
from store.presence import REMEMBERED, Offer
from store.record import Record
from store.transitions import admission, agenda, endings, lease
from workers.connection import RedisConnection
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 2.0
"""Seconds between this clock and that of Redis beyond which heartbeats of other workers cannot be judged here."""
ROUND, MOST_ROUNDS = 500, 20
"""The entries of the agenda that are looked at together, and how often in one sweep; the next sweep goes on."""
LOOK_AGAIN_S = 60.0
"""Seconds after which the janitor looks again at a certification for which it has nothing to do yet."""


class Janitor:
    """Sweeps the queues of one pool."""

    def __init__(self, connection: RedisConnection, settings: WorkerSettings, name: str) -> None:
        self._connection, self._settings, self._name = connection, settings, name
        self._queues = (bookkeeping.queue_name(settings.pool), bookkeeping.quarantine_name(settings.pool))
        self._seen: dict[tuple[str, str], float] = {}  # since when each id has been taken and not begun
        self._in_touch_since = time.monotonic()
        self._agreed = True

    def lost_touch(self) -> None:
        """Judge no worker dead for a while: Redis was away or stood still, so none could send a heartbeat."""
        self._in_touch_since = time.monotonic()

    def sweep(self) -> None:
        """Sweep once, unless another janitor has just done so."""
        now, pause = time.time(), max(1, self._settings.dead_after_s // 3)
        if time.monotonic() - self._in_touch_since < self._settings.dead_after_s or not self._clocks_agree(now):
            return
        lock = f"{keys.JANITOR}:{self._settings.pool}"
        if not self._connection.ask(("SET", lock, self._name, "NX", "EX", pause)):
            return
        self._bury_the_dead(now)
        for queue in self._queues:
            self._return_what_was_never_begun(queue)
            self._connection.client.zremrangebyscore(bookkeeping.queue(queue).failed_job_registry.key, 0, time.time())
            clean_worker_registry(bookkeeping.queue_at(queue, self._connection.client))
        self._forget_ensembles()
        self._follow_agenda(now)
        self._connection.call([admission.recount(now)])

    def _follow_agenda(self, now: float) -> None:
        """End what waited past its deadline, and remove what the expiry of a record leaves behind."""
        for _ in range(MOST_ROUNDS):
            due = self._connection.client.zrangebyscore(keys.AGENDA, "-inf", now, start=0, num=ROUND)
            entries = [entry.decode().split(" ") for entry in due]
            found = self._connection.run(("HGETALL", keys.record(certification)) for certification, _ in entries)
            calls: list[Call] = []
            commands: list[Command] = []
            for (certification, owner), data in zip(entries, found, strict=True):
                record = Record.salvage(certification, data)
                if record is None:
                    commands += agenda.forget(certification, owner)
                elif record.status == "queued":
                    calls.append(endings.miss(record, now=now, ttl=self._settings.result_ttl))
                else:  # its worker ends it in time, or the server is about to expire it
                    commands.append(agenda.look_again(record, at=now + LOOK_AGAIN_S))
            self._connection.call(calls)
            self._connection.write(commands)
            if len(due) < ROUND:
                return

    def _clocks_agree(self, now: float) -> bool:
        """Whether this clock and that of Redis agree; an answer that takes too long counts as a difference."""
        difference = self._connection.clock_difference(now)
        agree = abs(difference) <= CLOCKS_DIFFER_S
        if self._agreed and not agree:
            logger.warning(
                "the clock of Redis differs from ours by %+.1f s: no worker is judged dead by this process", difference
            )
        self._agreed = agree
        return agree

    def _forget_ensembles(self) -> None:
        """Remove the offers of ensembles that no worker has served for REMEMBERED seconds."""
        offers: dict[bytes, bytes] = self._connection.client.hgetall(keys.ENSEMBLES)
        oldest = time.time() - REMEMBERED
        old = [name for name, text in offers.items() if (offer := Offer.salvage(text)) and offer.seen_at < oldest]
        if old:
            self._connection.client.hdel(keys.ENSEMBLES, *old)

    def _bury_the_dead(self, now: float) -> None:
        """Bury what was dead at `now`, when the sweep began: Redis may have stood still since."""
        expired = [entry for queue in self._queues for entry in self._expired(queue, now)]
        orphans: dict[str, list[Record]] = defaultdict(list)
        for queue, certification, execution in expired:
            record = self._connection.record(certification)
            if record is not None and record.execution == execution and not record.ended:
                orphans[record.worker].append(record)
            else:  # it has gone on elsewhere or ended, and only the registries still name this execution
                self._connection.write(bookkeeping.end(certification, queue, execution))
        for worker, records in orphans.items():
            if (self._connection.client.zscore(keys.WORKERS, worker) or 0) > now:
                logger.warning("worker %s lives and has not learned of %d certifications", worker, len(records))
                self._connection.call([self._recall(record) for record in records])
                continue
            logger.warning("worker %s is dead, it had %d certifications", worker, len(records))
            self._connection.call(list(self._burials(records)))

    def _recall(self, record: Record) -> Call:
        """The answer to the look that began it was lost, so its worker does nothing for it, and nobody died of it."""
        if record.status == "canceling":
            return lease.bury(record, blamed=False, now=time.time(), ttl=self._settings.result_ttl)
        return lease.hand_back(record, record.execution, samples=record.samples_saved, checkpoints={})

    def _burials(self, records: list[Record]) -> Iterable[Call]:
        suspects = [record for record in records if record.deaths and not record.advanced]
        now, ttl = time.time(), self._settings.result_ttl
        for record in records:
            blamed = record in suspects or not suspects
            yield lease.bury(record, blamed=blamed, now=now, ttl=ttl)

    def _expired(self, queue: str, now: float) -> list[tuple[str, str, str]]:
        """(queue, certification, execution) of each execution without a heartbeat.

        RQ's registry is looked through, too: a worker of version 0.1 writes its heartbeats there alone.
        """
        registries = (keys.executions(queue), bookkeeping.started_key(queue))
        found = [self._connection.client.zrangebyscore(registry, 0, now) for registry in registries]
        entries = dict.fromkeys(entry for registry in found for entry in registry)
        return [(queue, *bookkeeping.parse_entry(entry)) for entry in entries]

    def _return_what_was_never_begun(self, queue: str) -> None:
        """Put ids back that a worker took long ago and did not begin: it died in between."""
        now = time.monotonic()
        taken = [entry.decode() for entry in self._connection.client.lrange(bookkeeping.taken_key(queue), 0, -1)]
        self._seen = {name: since for name, since in self._seen.items() if name[0] != queue or name[1] in taken}
        for certification in taken:
            since = self._seen.setdefault((queue, certification), now)
            if now - since < self._settings.dead_after_s:
                continue
            del self._seen[queue, certification]
            self._return(certification, queue)

    def _return(self, certification: str, queue: str) -> None:
        record = self._connection.record(certification)
        if record is None or record.status != "queued" or record.queue != queue:
            self._connection.call([lease.drop(certification, queue)])
            return
        logger.warning("was taken and never begun, waits again", extra={"certification_id": certification})
        self._connection.call([lease.put_back(record)])
