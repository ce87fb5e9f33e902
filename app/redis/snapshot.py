"""What the API reads of certifications: one at one moment, and what is new of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.redis.client import answering
from store import waiting
from store.record import Record


@dataclass(frozen=True)
class Snapshot:
    """A certification at one moment."""

    record: Record
    certificates: Mapping[int, str]
    """The finished certificates as JSON, by the index of their image."""
    position: int | None
    """The number of certifications before it in the queue; None once it no longer waits."""


@dataclass(frozen=True)
class News:
    """The state of a certification, and the certificates that a client has not received."""

    record: Record
    position: int | None
    certificates: Sequence[str]
    """In the order in which they were finished."""
    more: bool
    """Whether there are further certificates that the client has not received."""


async def located(redis: Any, records: Sequence[Record]) -> list[Snapshot]:
    """Snapshots of records of one owner, with the number of certifications before each that waits."""
    by_pool: dict[str, list[Record]] = {}
    for record in records:
        if record.status == "queued":
            by_pool.setdefault(record.pool, []).append(record)
    positions: dict[str, int] = {}
    for queued in by_pool.values():
        with answering():
            places = await redis.eval(*waiting.places(queued).arguments)
        positions |= {record.id: place for record, place in zip(queued, places, strict=True)}
    return [Snapshot(record, {}, positions.get(record.id)) for record in records]
