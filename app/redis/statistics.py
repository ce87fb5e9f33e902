"""What is counted of the whole service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.redis.client import answering
from app.redis.roster import Roster
from store import bookkeeping, keys
from store.archival import LEASE_S


@dataclass(frozen=True)
class Statistics:
    """The counters of all workers, and the number of certifications that wait in each pool."""

    counters: Mapping[str, float]
    waiting: Mapping[str, int]
    roster: Roster
    deliveries: int = 0
    """The number of webhooks that have not been delivered."""
    unarchived: int = 0
    """The number of certifications that the archive lacks or has to erase."""

    @classmethod
    async def read(cls, redis: Any, roster: Roster) -> Statistics:
        pools = sorted({worker.pool for worker in roster.workers} | {offer.pool for offer in roster.offers})
        with answering():
            async with redis.pipeline(transaction=False) as pipeline:
                pipeline.hgetall(keys.STATISTICS)
                pipeline.zcard(keys.DELIVERIES)
                pipeline.zcount(keys.ARCHIVAL, "-inf", time.time() + 2 * LEASE_S)
                for pool in pools:
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.queue_name(pool)))
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.quarantine_name(pool)))
                counters, undelivered, unarchived, *lengths = await pipeline.execute()
        waiting = dict(zip(pools, map(sum, zip(lengths[::2], lengths[1::2], strict=True)), strict=True))
        counted = {name.decode(): float(value) for name, value in counters.items()}
        return cls(counted, waiting, roster, undelivered, unarchived)
