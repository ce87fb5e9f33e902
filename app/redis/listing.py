"""The certifications of an owner, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.redis.client import answering
from app.redis.cursor import Cursor
from app.redis.snapshot import Snapshot, located
from smoothcert.certification import Status
from store import keys
from store.record import Record

PAGE_LOOKS = 1000
"""The number of records that are searched for one page of a list."""
CHUNK = 100
"""The number of records that are read from Redis at a time."""
TIES = 16
"""The entries that are read beyond CHUNK, because those of the cursor's own time come first again: more than one owner
creates in the same microsecond."""


@dataclass(frozen=True)
class Page:
    """Certifications of an owner, the newest first."""

    snapshots: Sequence[Snapshot]
    next: Cursor | None


class Listing:
    """The lists of all owners."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def page(self, owner: str, *, status: Status | None, limit: int, after: Cursor | None, now: float) -> Page:
        """The next certifications of an owner, the newest first.

        A page may have fewer than `limit` if many of another status lie between them.
        """
        records: list[Record] = []
        for _ in range(PAGE_LOOKS // CHUNK):
            entries = await self._owned(owner, after)
            for cursor, record in entries:
                if len(records) == limit:
                    return Page(await located(self._redis, records), after)
                after = cursor
                if record and status in (None, record.status_at(now)):
                    records.append(record)
            if len(entries) < CHUNK:
                return Page(await located(self._redis, records), None)
        return Page(await located(self._redis, records), after)

    async def _owned(self, owner: str, after: Cursor | None) -> list[tuple[Cursor, Record | None]]:
        """The CHUNK entries after a place in the list of an owner; None for a record that is gone."""
        latest = repr(after.created_at) if after else "+inf"
        with answering():
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
