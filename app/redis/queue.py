"""The queue, as the API sees it: the only file of `app` that talks to Redis.

Every method either answers or raises UnavailableError, within a few seconds. What met a dead connection, as all are
after a restart of Redis, is sent once more: every call of `store` may be carried out twice and counts once. The second
time says that there was nothing to do, so how a change went is told by the record, not by the answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as DisconnectedError
from redis.exceptions import RedisError

from app.http.errors import UnavailableError
from app.redis.changes import Changes, Watch
from app.redis.cursor import Cursor
from app.redis.roster import Roster
from smoothcert.certification import Status
from store import bookkeeping, keys, transitions
from store.commands import Call
from store.presence import Offer, Presence
from store.record import Record
from store.transitions import Limits

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
"""A disk that is shared may take seconds to write what must be on it before Redis answers."""
CONNECTIONS = 64
ROSTER_SECONDS = 1.0
"""For so long the workers and ensembles are taken to be those that were last seen."""
LOOK_SECONDS = 1.0
"""Whoever waits looks this often even without news: a message may be lost."""
QUIET_SECONDS = 10.0
"""After so long without a message it is asked whether the connection lives."""
PAGE_LOOKS = 1000
"""Records that are looked through for one page,"""
CHUNK = 100
"""so many at a time."""
TIES = 16
"""More than an owner's certifications of one and the same microsecond."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """A certification as it is at the moment."""

    record: Record
    certificates: Mapping[int, str]
    """Those that are finished, as JSON, by the place of their image."""
    position: int | None
    """How many are taken before it, while it waits."""


@dataclass(frozen=True)
class Receipt:
    """What became of a submission."""

    outcome: Literal["accepted", "replay", "conflict", "full", "busy"]
    certification: str
    """The one accepted, or the one that the Idempotency-Key was used for."""
    count: int = 0
    """Those that wait, or where there are too many of the owner's: those that are active."""


@dataclass(frozen=True)
class News:
    """What has happened to a certification since so many certificates had been told."""

    record: Record
    position: int | None
    certificates: Sequence[str]
    """In the order in which they were finished."""


@dataclass(frozen=True)
class Page:
    """Certifications of an owner, the newest first."""

    found: Sequence[Found]
    next: Cursor | None


@dataclass(frozen=True)
class Statistics:
    """The counters of all workers, and what waits in each pool."""

    counters: Mapping[str, float]
    waiting: Mapping[str, int]
    roster: Roster


class Queue:
    """Certifications in Redis; a context manager that listens for their changes."""

    def __init__(self, url: str, limits: Limits, *, result_ttl: int) -> None:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=ANSWER_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 1, supported_errors=(DisconnectedError,)),
        )
        self._redis: Any = Redis.from_pool(pool)  # whose types promise text and bytes at once
        self._limits, self._result_ttl = limits, result_ttl
        self.changes = Changes()
        self._roster = Roster((), ())
        self._roster_at = -math.inf
        self._refresh: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Queue]:
        """The queue, with its watches woken by the workers' messages."""
        listener = asyncio.create_task(self._listen())
        try:
            yield self
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            await self._redis.aclose()

    # --- one certification

    async def submit(
        self, record: Record, images: bytes, *, idempotency: tuple[str, str] | None = None, high: bool = False
    ) -> Receipt:
        """Take a certification in, all of it or nothing. `idempotency` is the key and the digest of the request."""
        known = (keys.idempotency(record.owner, idempotency[0]), idempotency[1]) if idempotency else None
        call = transitions.accept(record, images, self._limits, idempotency=known, high=high)
        outcome, said = await self._eval(call)
        if outcome in ("replay", "conflict"):
            return Receipt(outcome, said)
        return Receipt(outcome, record.id, int(said or 0))

    async def find(self, certification: str) -> Found | None:
        """A certification, if there is one of this id."""
        found = await self._look(certification)
        if found is not None and await self._fail_if_missed(found.record):
            found = await self._look(certification)
        return found

    async def _look(self, certification: str) -> Found | None:
        with _answering():
            text = await self._redis.eval(*transitions.read(certification).arguments)
        data, certificates, position = json.loads(text)
        record = dict(_pairs(data))
        if "id" not in record:
            return None
        texts = {int(index): text for index, text in _pairs(certificates)}
        return Found(Record.parse(record), texts, None if position is False else position)

    async def wait(
        self, found: Found, watch: Watch, seconds: float, *, gone: Callable[[], Awaitable[bool]]
    ) -> Found | None:
        """The certification once it has ended, or as it was last seen after so many seconds; None if it is deleted.

        Whoever asked may be `gone` before.
        """
        deadline = time.monotonic() + seconds
        while not found.record.ended and not self.changes.closed and (left := deadline - time.monotonic()) > 0:
            await watch.changed(min(left, LOOK_SECONDS))
            if await gone():
                return found
            with suppress(UnavailableError):  # it was found before, and may be found again before the time is up
                if not await self._goes_on(found.record.id):
                    latest = await self.find(found.record.id)
                    if latest is None:
                        return None
                    found = latest
        if seconds and not found.record.ended:
            with suppress(UnavailableError):
                return await self.find(found.record.id)
        return found

    async def _goes_on(self, certification: str) -> bool:
        """Whether there is nothing to do but wait; without its certificates, which may be megabytes."""
        with _answering():
            record = Record.read(await self._redis.hgetall(keys.record(certification)))
        return record is not None and not record.ended and not record.missed(time.time())

    async def news(self, certification: str, *, told: int) -> News | None:
        """What is new to somebody who has been told so many certificates."""
        with _answering():
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hgetall(keys.record(certification))
                pipeline.zrange(keys.arrivals(certification), told, -1)
                data, arrived = await pipeline.execute()
            texts = await self._redis.hmget(keys.certificates(certification), arrived) if arrived else []
        record = Record.read(data)
        if record is None:
            return None
        if await self._fail_if_missed(record):
            return await self.news(certification, told=told)
        return News(record, await self._position(record), [text.decode() for text in texts if text is not None])

    async def _fail_if_missed(self, record: Record) -> bool:
        """End a certification whose deadline has passed while it waits, as a worker would, were there one."""
        now = time.time()
        if not record.missed(now):
            return False
        done, _ = await self._eval(transitions.miss(record, now=now, ttl=self._result_ttl))
        return bool(done)

    async def cancel(self, record: Record) -> None:
        """Cancel a certification that waits, or ask its worker to stop, unless it has changed in the meantime."""
        if record.status == "queued":
            call = transitions.cancel_waiting(record, now=time.time(), ttl=self._result_ttl)
        else:
            call = transitions.cancel_running(record)
        await self._eval(call)

    async def delete(self, record: Record) -> None:
        """Forget a certification that has ended."""
        await self._eval(transitions.delete(record))

    # --- many of them

    async def page(self, owner: str, *, status: Status | None, limit: int, after: Cursor | None, now: float) -> Page:
        """The next certifications of an owner, the newest first; fewer than `limit` where many others lie between."""
        found: list[Record] = []
        for _ in range(PAGE_LOOKS // CHUNK):
            entries = await self._owned(owner, after)
            for cursor, record in entries:
                if len(found) == limit:
                    return Page(await self._with_positions(found), after)
                after = cursor
                if record and status in (None, record.status_at(now)):
                    found.append(record)
            if len(entries) < CHUNK:
                return Page(await self._with_positions(found), None)
        return Page(await self._with_positions(found), after)

    async def _owned(self, owner: str, after: Cursor | None) -> list[tuple[Cursor, Record | None]]:
        """The CHUNK entries after a place in the list of an owner; those whose record is gone have none."""
        latest = repr(after.created_at) if after else "+inf"
        with _answering():
            entries = await self._redis.zrange(
                keys.owned(owner), latest, "-inf", desc=True, byscore=True, offset=0, num=CHUNK + TIES, withscores=True
            )
            cursors = [Cursor(score, member.decode()) for member, score in entries]
            cursors = [cursor for cursor in cursors if after is None or cursor < after][:CHUNK]
            async with self._redis.pipeline(transaction=False) as pipeline:
                for cursor in cursors:
                    pipeline.hgetall(keys.record(cursor.certification))
                records = await pipeline.execute()
        return [
            (cursor, Record.salvage(cursor.certification, data)) for cursor, data in zip(cursors, records, strict=True)
        ]

    # --- everything else

    async def roster(self, *, fresh: bool = False) -> Roster:
        """The workers and ensembles; as they were within the last second, unless they must be fresh."""
        if fresh or time.monotonic() - self._roster_at > ROSTER_SECONDS:
            if self._refresh is None or self._refresh.done():
                self._refresh = asyncio.create_task(self._renew_roster())
            await asyncio.shield(self._refresh)  # one for all who ask meanwhile, also where it fails
        return self._roster

    async def _renew_roster(self) -> None:
        self._roster, self._roster_at = await self._read_roster(), time.monotonic()

    async def _read_roster(self) -> Roster:
        now = time.time()
        with _answering():
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.zrange(keys.WORKERS, now, "+inf", byscore=True)
                pipeline.hvals(keys.ENSEMBLES)
                names, offers = await pipeline.execute()
            said = await self._redis.mget([keys.worker(name.decode()) for name in names]) if names else []
        workers = [worker for text in said if text is not None and (worker := Presence.salvage(text))]
        return Roster.of(workers, [offer for text in offers if (offer := Offer.salvage(text))], now=now)

    async def endings(self, pool: str) -> list[float]:
        """When the last certifications of a pool ended, the newest first."""
        with _answering():
            return [float(text) for text in await self._redis.lrange(keys.finished(pool), 0, -1)]

    async def statistics(self) -> Statistics:
        """What the workers have done, and what waits for them."""
        roster = await self.roster(fresh=True)
        pools = sorted({worker.pool for worker in roster.workers} | {offer.pool for offer in roster.offers})
        with _answering():
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.hgetall(keys.STATISTICS)
                for pool in pools:
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.queue_name(pool)))
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.quarantine_name(pool)))
                counters, *lengths = await pipeline.execute()
        waiting = dict(zip(pools, map(sum, zip(lengths[::2], lengths[1::2], strict=True)), strict=True))
        return Statistics({name.decode(): float(value) for name, value in counters.items()}, waiting, roster)

    # --- Redis

    async def _eval(self, call: Call) -> tuple[Any, str]:
        with _answering():
            first, second = await self._redis.eval(*call.arguments)
        return first.decode() if isinstance(first, bytes) else first, second.decode()

    async def _position(self, record: Record) -> int | None:
        return (await self._with_positions([record]))[0].position

    async def _with_positions(self, records: Sequence[Record]) -> list[Found]:
        """How many are before each that waits; none where it has been taken and not yet begun."""
        waiting = [record for record in records if record.status == "queued"]
        places: list[int | None] = []
        if waiting:
            with _answering():
                async with self._redis.pipeline(transaction=False) as pipeline:
                    for record in waiting:
                        pipeline.lpos(bookkeeping.waiting_key(record.queue), record.id)
                    places = await pipeline.execute()
        positions = {record.id: place or 0 for record, place in zip(waiting, places, strict=True)}
        return [Found(record, {}, positions.get(record.id)) for record in records]

    async def _listen(self) -> None:
        """Wake watches until cancelled; a connection that is lost is made again."""
        while True:
            try:
                await self._hear()
            except (RedisError, OSError) as error:
                logger.warning("no news from Redis: %s", error)
            except Exception:
                logger.exception("no news from Redis")
            await asyncio.sleep(LOOK_SECONDS)

    async def _hear(self) -> None:
        quiet = False
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(keys.CHANGED)
            while True:
                message = await pubsub.get_message(timeout=QUIET_SECONDS)
                if message is None:
                    if quiet:
                        raise TimeoutError("the connection is dead")
                    await pubsub.ping()
                elif message["type"] == "subscribe":
                    self.changes.wake_all()  # what happened before was not heard
                elif message["type"] == "message":
                    certification, _, status = message["data"].decode().partition(" ")
                    self.changes.wake(certification, status)
                quiet = message is None


def _pairs(flat: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(flat[::2], flat[1::2], strict=True) if flat else ()


@contextmanager
def _answering() -> Iterator[None]:
    """Whatever Redis does instead of answering is one error."""
    try:
        yield
    except (RedisError, OSError) as error:
        logger.warning("Redis: %s: %s", type(error).__name__, error)
        raise UnavailableError from error
