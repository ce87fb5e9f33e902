"""New work: a certification is accepted, completely or not at all, while Redis has room for it."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import NoPermissionError, OutOfMemoryError

from app.http.errors import UnavailableError, UnconfirmedError
from app.redis.client import answering, evaluated
from app.redis.memory import Memory, StorageFullError
from store import keys
from store.commands import Call, answered
from store.record import Record
from store.transitions import admission
from store.transitions.admission import Limits

CONFIRM_SECONDS = 2.0
"""Seconds that replicas have to confirm a certification; less than those for an answer."""
MEMORY_SECONDS = 1.0
"""Seconds for which the measure of Redis' memory is reused."""


@dataclass(frozen=True)
class Receipt:
    """The outcome of a submission."""

    outcome: Literal[
        "accepted", "replay", "gone", "conflict", "full", "full_bytes", "busy", "busy_samples", "busy_bytes"
    ]
    certification: str
    """The id of the accepted certification, or of the one that the Idempotency-Key was used for."""
    count: int = 0
    """For `accepted`, the number of certifications that are taken before it; otherwise how much there is already."""


class Submissions:
    """Accepts certifications within the limits."""

    def __init__(self, redis: Any, limits: Limits, *, replicas: int) -> None:
        """`replicas` is the number that must have confirmed a certification before it counts as accepted."""
        self._redis, self._limits, self._replicas = redis, limits, replicas
        self._memory, self._memory_at = Memory(0, 0), -math.inf

    async def add(
        self, record: Record, images: bytes, *, idempotency: tuple[str, str] | None = None, high: bool = False
    ) -> Receipt:
        """Add a certification, completely or not at all. `idempotency` is the key and the digest of the request.

        StorageFullError if Redis has no room for new work; a request that is repeated is found all the same.
        """
        known = (keys.idempotency(record.owner, idempotency[0]), idempotency[1]) if idempotency else None
        call = admission.accept(record, images, self._limits, idempotency=known, high=high)
        try:
            (await self._measure_memory()).require_room(len(images))
            outcome, value = await self._accept(call)
        except StorageFullError:
            outcome, value = await self._written(admission.replay(known)) if known else ("new", "")
            if outcome == "new":
                raise
        if outcome in ("replay", "gone", "conflict"):
            return Receipt(outcome, value)
        return Receipt(outcome, record.id, int(value))

    async def _accept(self, call: Call) -> tuple[Any, str]:
        try:
            return await self._written(call)
        except UnavailableError as error:
            if isinstance(error.__cause__, OutOfMemoryError):
                raise StorageFullError(self._memory) from error
            raise

    async def _written(self, call: Call) -> tuple[Any, str]:
        """The answer of a script for new work once enough replicas have what it wrote; UnconfirmedError if too few do.

        WAIT waits for the writes of its own connection. A request that is repeated writes nothing, so there is a write
        of ours between the two: replicas which have that one have all earlier ones.
        """
        if not self._replicas:
            return await evaluated(self._redis, call)
        with answering():
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.eval(*call.arguments)
                pipeline.eval(*answered(("SET", keys.CONFIRMED, time.time())).arguments)
                pipeline.wait(self._replicas, int(CONFIRM_SECONDS * 1000))
                (first, second), _, confirmed = await pipeline.execute()
        if confirmed < self._replicas and first in (b"accepted", b"replay"):
            raise UnconfirmedError(confirmed, self._replicas)
        return first.decode(), second.decode()

    async def _measure_memory(self) -> Memory:
        if time.monotonic() - self._memory_at > MEMORY_SECONDS:
            with answering(), suppress(NoPermissionError):  # then the server alone decides when it is full
                self._memory = Memory.of(await self._redis.info("memory"))
            self._memory_at = time.monotonic()
        return self._memory
