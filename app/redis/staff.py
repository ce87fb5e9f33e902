"""The roster as this process knows it: read again when it is old, once for all requests that want it."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

from app.http.errors import ProblemError
from app.redis.client import answering
from app.redis.roster import Roster
from store import keys
from store.presence import Offer, Presence

ROSTER_SECONDS = 1.0
"""Seconds for which the list of workers and ensembles is reused."""


class Staff:
    """The workers and the ensembles that they serve."""

    def __init__(self, redis: Any, *, default_ensemble: str) -> None:
        self._redis, self._default_ensemble = redis, default_ensemble
        self._roster = Roster((), ())
        self._roster_at = -math.inf
        self._refresh: asyncio.Task[None] | None = None

    async def roster(self, *, fresh: bool = False) -> Roster:
        """The workers and ensembles, not older than ROSTER_SECONDS; read again if they must be `fresh`."""
        if fresh or time.monotonic() - self._roster_at > ROSTER_SECONDS:
            if self._refresh is None or self._refresh.done():
                self._refresh = asyncio.create_task(self._renew())
            await asyncio.shield(self._refresh)  # one read serves all requests that wait for it, even if it fails
        return self._roster

    async def offer(self, name: str | None) -> Offer:
        """The ensemble that a request names, even if it was announced a moment ago; ProblemError if there is none."""
        roster = await self.roster()
        try:
            return roster.offer(name)
        except ProblemError:
            return (await self.roster(fresh=True)).offer(name)

    async def _renew(self) -> None:
        self._roster, self._roster_at = await self._read(), time.monotonic()

    async def _read(self) -> Roster:
        now = time.time()
        with answering():
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.zrange(keys.WORKERS, now, "+inf", byscore=True)
                pipeline.hvals(keys.ENSEMBLES)
                names, offers = await pipeline.execute()
            texts = await self._redis.mget([keys.worker(name.decode()) for name in names]) if names else []
        workers = [worker for text in texts if text is not None and (worker := Presence.salvage(text))]
        known = [offer for text in offers if (offer := Offer.salvage(text))]
        return Roster.of(workers, known, now=now, default=self._default_ensemble)
