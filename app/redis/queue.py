"""Certifications, workers and ensembles in Redis, as the API sees them.

Every method either returns or raises UnavailableError within a few seconds. A command that meets a dead connection, as
all are after a restart of Redis, is sent a second time. That is safe: every call of `store` may be carried out twice
and counts once. The second reply then says that there was nothing to do, so callers read the outcome of a change from
the record and not from the reply.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import NoPermissionError, OutOfMemoryError, RedisError

from app.http.errors import ProblemError, UnavailableError, UnconfirmedError
from app.redis.changes import Changes, Watch
from app.redis.client import connected
from app.redis.cursor import Cursor
from app.redis.inspector import Inspector
from app.redis.memory import Memory, StorageFullError
from app.redis.roster import Roster
from smoothcert.certification import Status
from smoothcert.published import RedisCheck
from store import allowances, bookkeeping, keys, waiting
from store.address import RedisAddress
from store.allowances import Allowance
from store.archival import LEASE_S
from store.commands import Call, answered
from store.presence import Offer, Presence
from store.record import Record
from store.transitions import admission, cancellation, endings
from store.transitions.admission import Limits

ROSTER_SECONDS = 1.0
"""Seconds for which the list of workers and ensembles is reused."""
LOOK_SECONDS = 1.0
"""Seconds after which a waiting request reads the record even without a message, since messages may be lost."""
CANCEL_SECONDS = 1.0
"""Seconds after which the listener is canceled again."""
QUIET_SECONDS = 10.0
"""Seconds without a message after which the connection for messages is tested."""
PAGE_LOOKS = 1000
"""The number of records that are searched for one page of a list."""
CHUNK = 100
"""The number of records that are read from Redis at a time."""
FIRST_PIECE = 8
"""The number of certificates that are read before it is known how large they are."""
PIECE_BYTES = 1_000_000
"""The bytes of certificates that are read at a time, about a millisecond of Redis."""
LARGEST_PIECE = 500
"""The number of certificates that are read at a time, however small they are."""
CONFIRM_SECONDS = 2.0
"""Seconds that replicas have to confirm a certification; less than those for an answer."""
MEMORY_SECONDS = 1.0
"""Seconds for which the measure of Redis' memory is reused."""
TIES = 16
"""More than the certifications that one owner creates in the same microsecond."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """A certification at one moment."""

    record: Record
    certificates: Mapping[int, str]
    """The finished certificates as JSON, by the index of their image."""
    position: int | None
    """The number of certifications before it in the queue; None once it no longer waits."""


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


@dataclass(frozen=True)
class News:
    """The state of a certification, and the certificates that a client has not received."""

    record: Record
    position: int | None
    certificates: Sequence[str]
    """In the order in which they were finished."""
    more: bool
    """Whether there are further certificates that the client has not received."""


@dataclass(frozen=True)
class Page:
    """Certifications of an owner, the newest first."""

    snapshots: Sequence[Snapshot]
    next: Cursor | None


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


class Queue:
    """The certifications in Redis; `listening` is a context in which their changes are received."""

    def __init__(
        self,
        where: RedisAddress | str,
        limits: Limits,
        *,
        result_ttl: int,
        default_ensemble: str = "",
        replicas: int = 0,
    ) -> None:
        """`replicas` is the number that must have confirmed a certification before it counts as accepted."""
        self._redis = connected(RedisAddress.of(where))
        self.inspector = Inspector(replicas=replicas)
        self._replicas = replicas
        self._limits, self._result_ttl, self._default_ensemble = limits, result_ttl, default_ensemble
        self.changes = Changes()
        self._roster = Roster((), ())
        self._roster_at = -math.inf
        self._refresh: asyncio.Task[None] | None = None
        self._memory, self._memory_at = Memory(0, 0), -math.inf
        self._pubsub: Any = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Queue]:
        """A context in which the workers' messages wake the watches."""
        listener = asyncio.create_task(self._listen())
        try:
            yield self
        finally:
            while not listener.done():  # the Redis client can swallow a cancellation while it connects
                listener.cancel()
                await asyncio.wait({listener}, timeout=CANCEL_SECONDS)
            await self._redis.aclose()

    # --- one certification

    async def submit(
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
            return await self._eval(call)
        with _answering():
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
            with _answering(), suppress(NoPermissionError):  # then the server alone decides when it is full
                self._memory = Memory.of(await self._redis.info("memory"))
            self._memory_at = time.monotonic()
        return self._memory

    async def find(self, certification: str, *, owner: str = "") -> Snapshot | None:
        """The certification with this id, if there is one and it belongs to this owner; '' for any owner."""
        snapshot = await self._look(certification, owner)
        if snapshot is not None and await self._fail_if_missed(snapshot.record):
            snapshot = await self._look(certification, owner)
        return snapshot

    async def _look(self, certification: str, owner: str) -> Snapshot | None:
        with _answering():
            text = await self._redis.eval(*waiting.read(certification, owner=owner).arguments)
        if not text:
            return None
        data, position = json.loads(text)
        record = Record.parse(dict(zip(data[::2], data[1::2], strict=True)))
        certificates = await self._certificates(record) if record.done else {}
        if record.ended and len(certificates) < record.done and not await self._exists(certification):
            return None  # it was deleted after the record was read
        return Snapshot(record, certificates, None if position is False else position)

    async def _exists(self, certification: str) -> bool:
        with _answering():
            return bool(await self._redis.exists(keys.record(certification)))

    async def _certificates(self, record: Record) -> dict[int, str]:
        """The finished certificates by the index of their image, read in pieces: Redis serves nobody else meanwhile."""
        texts: list[bytes | None] = []
        piece = FIRST_PIECE
        while len(texts) < record.images:
            places = range(len(texts), min(len(texts) + piece, record.images))
            with _answering():
                texts += await self._redis.hmget(keys.certificates(record.id), places)
            largest = max((len(text) for text in texts if text), default=PIECE_BYTES // LARGEST_PIECE)
            piece = max(1, min(LARGEST_PIECE, PIECE_BYTES // largest))
        return {index: text.decode() for index, text in enumerate(texts) if text is not None}

    @asynccontextmanager
    async def watching(self, certification: str, *, for_the_end: bool = False) -> AsyncIterator[Watch]:
        """A watch on a certification, whose changes are received as long as the context lasts."""
        with self.changes.watch(certification, for_the_end=for_the_end) as watch:
            await self._subscribe(certification)
            try:
                yield watch
            finally:
                if self.changes.watchers(certification) == 1:
                    await self._unsubscribe(certification)

    async def wait(
        self, snapshot: Snapshot, watch: Watch, seconds: float, *, gone: Callable[[], Awaitable[bool]]
    ) -> Snapshot | None:
        """The certification once it has ended, or its latest snapshot after `seconds`; None if it was deleted.

        The wait ends early if the client is `gone`.
        """
        deadline = time.monotonic() + seconds
        while not snapshot.record.ended and not self.changes.closed and (left := deadline - time.monotonic()) > 0:
            await watch.changed(min(left, LOOK_SECONDS))
            if await gone():
                return snapshot
            with suppress(UnavailableError):  # Redis may answer again before the time is up
                if not await self._goes_on(snapshot.record.id):
                    latest = await self.find(snapshot.record.id)
                    if latest is None:
                        return None
                    snapshot = latest
        if seconds and not snapshot.record.ended:
            with suppress(UnavailableError):
                return await self.find(snapshot.record.id)
        return snapshot

    async def _goes_on(self, certification: str) -> bool:
        """Whether a certification has neither ended nor missed its deadline; reads no certificates, which are large."""
        with _answering():
            record = Record.read(await self._redis.hgetall(keys.record(certification)))
        return record is not None and not record.ended and not record.missed(time.time())

    async def news(self, certification: str, *, sent: int) -> News | None:
        """The state of a certification, and certificates after the first `sent`; None if it was deleted.

        If there are many, the news has some of them, and `more` says so.
        """
        with _answering():
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hgetall(keys.record(certification))
                pipeline.zrange(keys.arrivals(certification), sent, sent + FIRST_PIECE)
                data, arrived = await pipeline.execute()
            more, arrived = len(arrived) > FIRST_PIECE, arrived[:FIRST_PIECE]
            texts = await self._redis.hmget(keys.certificates(certification), arrived) if arrived else []
        record = Record.read(data)
        if record is None:
            return None
        if await self._fail_if_missed(record):
            return await self.news(certification, sent=sent)
        found = [text.decode() for text in texts if text is not None]
        return News(record, await self._position(record), found, more and bool(found))

    async def _fail_if_missed(self, record: Record) -> bool:
        """End a certification whose deadline has passed while it waits. A worker would do the same, if one is alive."""
        now = time.time()
        if not record.missed(now):
            return False
        done, _ = await self._eval(endings.miss(record, now=now, ttl=self._result_ttl))
        return bool(done)

    async def cancel(self, record: Record) -> None:
        """Cancel a certification that waits, or ask its worker to stop; nothing if the record has changed since."""
        if record.status == "queued":
            call = cancellation.cancel_waiting(record, now=time.time(), ttl=self._result_ttl)
        else:
            call = cancellation.cancel_running(record)
        await self._eval(call)

    async def delete(self, record: Record) -> None:
        """Delete a certification that has ended."""
        await self._eval(cancellation.delete(record))

    async def erased(self, certifications: Sequence[str]) -> set[str]:
        """Those that were deleted and that the archive may still have."""
        if not certifications:
            return set()
        with _answering():
            owners = await self._redis.mget([keys.erasure(each) for each in certifications])
        return {each for each, owner in zip(certifications, owners, strict=True) if owner is not None}

    async def unarchived(self) -> int:
        """The number of certifications that the archive lacks or has to erase."""
        with _answering():
            return int(await self._redis.zcount(keys.ARCHIVAL, "-inf", time.time() + 2 * LEASE_S))

    # --- many of them

    async def page(self, owner: str, *, status: Status | None, limit: int, after: Cursor | None, now: float) -> Page:
        """The next certifications of an owner, the newest first.

        A page may have fewer than `limit` if many of another status lie between them.
        """
        records: list[Record] = []
        for _ in range(PAGE_LOOKS // CHUNK):
            entries = await self._owned(owner, after)
            for cursor, record in entries:
                if len(records) == limit:
                    return Page(await self._with_positions(records), after)
                after = cursor
                if record and status in (None, record.status_at(now)):
                    records.append(record)
            if len(entries) < CHUNK:
                return Page(await self._with_positions(records), None)
        return Page(await self._with_positions(records), after)

    async def _owned(self, owner: str, after: Cursor | None) -> list[tuple[Cursor, Record | None]]:
        """The CHUNK entries after a place in the list of an owner; None for a record that is gone."""
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
        """The workers and ensembles, not older than ROSTER_SECONDS; read anew if they must be `fresh`."""
        if fresh or time.monotonic() - self._roster_at > ROSTER_SECONDS:
            if self._refresh is None or self._refresh.done():
                self._refresh = asyncio.create_task(self._renew_roster())
            await asyncio.shield(self._refresh)  # one read serves all requests that wait for it, also if it fails
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
            texts = await self._redis.mget([keys.worker(name.decode()) for name in names]) if names else []
        workers = [worker for text in texts if text is not None and (worker := Presence.salvage(text))]
        known = [offer for text in offers if (offer := Offer.salvage(text))]
        return Roster.of(workers, known, now=now, default=self._default_ensemble)

    async def offer(self, name: str | None) -> Offer:
        """The ensemble that a request names, also if it was announced a moment ago; ProblemError if there is none."""
        roster = await self.roster()
        try:
            return roster.offer(name)
        except ProblemError:
            return (await self.roster(fresh=True)).offer(name)

    async def spend(self, allowance: Allowance, member: str, wanted: int = 1) -> tuple[int, float]:
        """Spend an allowance that all API processes share: how many uses are given, and the seconds until the next."""
        given, seconds = await self._eval(allowances.spend(allowance, member, wanted))
        return int(given), float(seconds)

    async def come_back(self, pool: str, *, room: float, pause: float, spread: float) -> float:
        """Seconds after which the next client that found a queue full should return, by all API processes."""
        with _answering():
            call = allowances.come_back(pool, room=room, pause=pause, spread=spread)
            return float(await self._redis.eval(*call.arguments))

    async def checks(self) -> tuple[RedisCheck, ...]:
        """What was found of the server lately."""
        with _answering():
            return await self.inspector.checks(self._redis)

    async def endings(self, pool: str) -> list[float]:
        """The times at which the last certifications of a pool ended, the newest first."""
        with _answering():
            return [float(text) for text in await self._redis.lrange(keys.finished(pool), 0, -1)]

    async def statistics(self) -> Statistics:
        roster = await self.roster(fresh=True)
        pools = sorted({worker.pool for worker in roster.workers} | {offer.pool for offer in roster.offers})
        with _answering():
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.hgetall(keys.STATISTICS)
                pipeline.zcard(keys.DELIVERIES)
                pipeline.zcount(keys.ARCHIVAL, "-inf", time.time() + 2 * LEASE_S)
                for pool in pools:
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.queue_name(pool)))
                    pipeline.llen(bookkeeping.waiting_key(bookkeeping.quarantine_name(pool)))
                counters, undelivered, unarchived, *lengths = await pipeline.execute()
        waiting = dict(zip(pools, map(sum, zip(lengths[::2], lengths[1::2], strict=True)), strict=True))
        counted = {name.decode(): float(value) for name, value in counters.items()}
        return Statistics(counted, waiting, roster, undelivered, unarchived)

    # --- Redis

    async def ask(self, call: Call) -> Any:
        """The answer of a script."""
        with _answering():
            return await self._redis.eval(*call.arguments)

    async def _eval(self, call: Call) -> tuple[Any, str]:
        with _answering():
            first, second = await self._redis.eval(*call.arguments)
        return first.decode() if isinstance(first, bytes) else first, second.decode()

    async def _position(self, record: Record) -> int | None:
        return (await self._with_positions([record]))[0].position

    async def _with_positions(self, records: Sequence[Record]) -> list[Snapshot]:
        """Snapshots of records of one owner, with the number of certifications before each that waits."""
        by_pool: dict[str, list[Record]] = {}
        for record in records:
            if record.status == "queued":
                by_pool.setdefault(record.pool, []).append(record)
        positions: dict[str, int] = {}
        for queued in by_pool.values():
            with _answering():
                places = await self._redis.eval(*waiting.places(queued).arguments)
            positions |= {record.id: place for record, place in zip(queued, places, strict=True)}
        return [Snapshot(record, {}, positions.get(record.id)) for record in records]

    async def _subscribe(self, certification: str) -> None:
        """Receive the changes of a certification; if that fails, whoever waits looks every LOOK_SECONDS."""
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.subscribe(keys.changed(certification))

    async def _unsubscribe(self, certification: str) -> None:
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.unsubscribe(keys.changed(certification))

    async def _listen(self) -> None:
        """Wake watches until cancelled; reconnects when the connection is lost."""
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as error:
                logger.warning("no messages from Redis: %s", error)
            except Exception:
                logger.exception("no messages from Redis")
            await asyncio.sleep(LOOK_SECONDS)

    async def _receive(self) -> None:
        quiet = False
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(keys.CHANGED, *map(keys.changed, self.changes.watched))
            self._pubsub = pubsub
            try:
                while True:
                    message = await pubsub.get_message(timeout=QUIET_SECONDS)
                    if message is not None:
                        self._wake(message)
                    elif quiet:
                        raise TimeoutError("the connection is dead")
                    else:
                        await pubsub.ping()
                    quiet = message is None
            finally:
                self._pubsub = None

    def _wake(self, message: Mapping[str, Any]) -> None:
        channel = message["channel"].decode() if message["channel"] else ""
        certification = channel.removeprefix(f"{keys.CHANGED}:")
        if message["type"] == "subscribe" and channel != keys.CHANGED:
            self.changes.wake(certification)  # messages before the subscription were lost
        elif message["type"] == "subscribe":
            self.changes.wake_all()
        elif message["type"] == "message" and channel == keys.CHANGED:
            certification, _, status = message["data"].decode().partition(" ")
            self.changes.wake(certification, status)
        elif message["type"] == "message":
            self.changes.wake(certification, message["data"].decode())


@contextmanager
def _answering() -> Iterator[None]:
    """Turn every failure of Redis into an UnavailableError."""
    try:
        yield
    except (RedisError, OSError) as error:
        logger.warning("Redis: %s: %s", type(error).__name__, error)
        raise UnavailableError from error
