"""Certifications, workers and ensembles in Redis, as the API sees them.

Every method either returns or raises UnavailableError within a few seconds. A command that meets a dead connection, as
all are after a restart of Redis, is sent a second time. That is safe: every call of `store` may be carried out twice
and counts once. The second reply then says that there was nothing to do, so callers read the outcome of a change from
the record and not from the reply.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from app.http.errors import UnavailableError
from app.redis.changes import Watch
from app.redis.client import answering, connected, evaluated
from app.redis.inspector import Inspector
from app.redis.listener import LOOK_SECONDS, Listener
from app.redis.listing import Listing
from app.redis.snapshot import News, Snapshot, located
from app.redis.staff import Staff
from app.redis.statistics import Statistics
from app.redis.submissions import Submissions
from smoothcert.published import RedisCheck
from store import allowances, keys, waiting
from store.address import RedisAddress
from store.allowances import Allowance
from store.archival import LEASE_S
from store.commands import Call
from store.record import Record
from store.transitions import cancellation, endings
from store.transitions.admission import Limits

FIRST_PIECE = 8
"""The number of certificates that are read before it is known how large they are."""
PIECE_BYTES = 1_000_000
"""The bytes of certificates that are read at a time, about a millisecond of Redis."""
LARGEST_PIECE = 500
"""The number of certificates that are read at a time, however small they are."""


class Queue:
    """The certifications in Redis; `listening` is a context in which their changes are received.

    Its parts share one client: new work (`submissions`), messages (`listener`), lists (`listing`), workers and
    ensembles (`staff`).
    """

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
        self._result_ttl = result_ttl
        self.inspector = Inspector(replicas=replicas)
        self.listener = Listener(self._redis)
        self.listing = Listing(self._redis)
        self.staff = Staff(self._redis, default_ensemble=default_ensemble)
        self.submissions = Submissions(self._redis, limits, replicas=replicas)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Queue]:
        """A context in which the workers' messages wake the watches."""
        try:
            async with self.listener.listening():
                yield self
        finally:
            await self._redis.aclose()

    # --- one certification

    async def find(self, certification: str, *, owner: str = "") -> Snapshot | None:
        """The certification with this id, if there is one and it belongs to this owner; '' for any owner."""
        snapshot = await self._look(certification, owner)
        if snapshot is not None and await self._fail_if_missed(snapshot.record):
            snapshot = await self._look(certification, owner)
        return snapshot

    async def _look(self, certification: str, owner: str) -> Snapshot | None:
        with answering():
            call = waiting.read(certification, owner=owner, certificates=FIRST_PIECE)
            text, first = await self._redis.eval(*call.arguments)
        if not text:
            return None
        data, position = json.loads(text)
        record = Record.parse(dict(zip(data[::2], data[1::2], strict=True)))
        certificates = await self._certificates(record, first) if record.done else {}
        if record.ended and len(certificates) < record.done and not await self._exists(certification):
            return None  # it was deleted after the record was read
        return Snapshot(record, certificates, None if position is False else position)

    async def _exists(self, certification: str) -> bool:
        with answering():
            return bool(await self._redis.exists(keys.record(certification)))

    async def images(self, certification: str) -> bytes | None:
        """The images of a certification as one npy file; None where they are gone."""
        with answering():
            found: bytes | None = await self._redis.get(keys.images(certification))
        return found

    async def _certificates(self, record: Record, texts: list[bytes | None]) -> dict[int, str]:
        """The finished certificates by the index of their image; `texts` are those of the first ones.

        They are read in pieces, because Redis serves no other client meanwhile.
        """
        while len(texts) < record.images:
            largest = max((len(text) for text in texts if text), default=PIECE_BYTES // LARGEST_PIECE)
            piece = max(1, min(LARGEST_PIECE, PIECE_BYTES // largest))
            places = range(len(texts), min(len(texts) + piece, record.images))
            with answering():
                texts += await self._redis.hmget(keys.certificates(record.id), places)
        return {index: text.decode() for index, text in enumerate(texts) if text is not None}

    async def wait(
        self, snapshot: Snapshot, watch: Watch, seconds: float, *, gone: Callable[[], Awaitable[bool]]
    ) -> Snapshot | None:
        """The certification once it has ended, or its latest snapshot after `seconds`; None if it was deleted.

        The wait ends early if the client is `gone`.
        """
        deadline, changes = time.monotonic() + seconds, self.listener.changes
        while not snapshot.record.ended and not changes.closed and (left := deadline - time.monotonic()) > 0:
            ended = await watch.changed(min(left, LOOK_SECONDS))
            if not ended and await gone():
                return snapshot
            with suppress(UnavailableError):  # Redis may answer again before the time is up
                if ended or not await self._goes_on(snapshot.record.id):
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
        with answering():
            record = Record.read(await self._redis.hgetall(keys.record(certification)))
        return record is not None and not record.ended and not record.missed(time.time())

    async def news(self, certification: str, *, sent: int) -> News | None:
        """The state of a certification, and certificates after the first `sent`; None if it was deleted.

        If there are many, the news has some of them, and `more` says so.
        """
        with answering():
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
        (snapshot,) = await located(self._redis, [record])
        return News(record, snapshot.position, found, more and bool(found))

    async def _fail_if_missed(self, record: Record) -> bool:
        """End a certification whose deadline has passed while it waits. A worker would do the same, if one is alive."""
        now = time.time()
        if not record.missed(now):
            return False
        done, _ = await evaluated(self._redis, endings.miss(record, now=now, ttl=self._result_ttl))
        return bool(done)

    async def cancel(self, record: Record) -> None:
        """Cancel a certification that waits, or ask its worker to stop; nothing if the record has changed since."""
        if record.status == "queued":
            call = cancellation.cancel_waiting(record, now=time.time(), ttl=self._result_ttl)
        else:
            call = cancellation.cancel_running(record)
        await evaluated(self._redis, call)

    async def delete(self, record: Record) -> None:
        """Delete a certification that has ended."""
        await evaluated(self._redis, cancellation.delete(record))

    async def erased(self, certifications: Sequence[str]) -> set[str]:
        """Those that were deleted and that the archive may still have."""
        if not certifications:
            return set()
        with answering():
            owners = await self._redis.mget([keys.erasure(each) for each in certifications])
        return {each for each, owner in zip(certifications, owners, strict=True) if owner is not None}

    async def unarchived(self) -> int:
        """The number of certifications that the archive lacks or has to erase."""
        with answering():
            return int(await self._redis.zcount(keys.ARCHIVAL, "-inf", time.time() + 2 * LEASE_S))

    # --- everything else

    async def spend(self, allowance: Allowance, member: str, wanted: int = 1) -> tuple[int, float]:
        """Spend an allowance that all API processes share: how many uses are given, and the seconds until the next."""
        given, seconds = await evaluated(self._redis, allowances.spend(allowance, member, wanted))
        return int(given), float(seconds)

    async def come_back(self, line: str, *, room: float, pause: float, spread: float) -> float:
        """Seconds after which the next client of a line should return, by all API processes."""
        with answering():
            call = allowances.come_back(line, room=room, pause=pause, spread=spread)
            return float(await self._redis.eval(*call.arguments))

    async def checks(self) -> tuple[RedisCheck, ...]:
        """What was found of the server lately."""
        with answering():
            return await self.inspector.checks(self._redis)

    async def endings(self, pool: str) -> list[float]:
        """The times at which the last certifications of a pool ended, the newest first."""
        with answering():
            return [float(text) for text in await self._redis.lrange(keys.finished(pool), 0, -1)]

    async def statistics(self) -> Statistics:
        return await Statistics.read(self._redis, await self.staff.roster(fresh=True))

    # --- Redis

    async def ask(self, call: Call) -> Any:
        """The answer of a script."""
        with answering():
            return await self._redis.eval(*call.arguments)
