"""A certification is taken in, within the limits of its owner and of the queue."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from store import bookkeeping, keys, waiting
from store.commands import Call, Command, packed, pairs
from store.record import Record
from store.scripts.admission import ACCEPT, RECOUNT, REPLAY
from store.transitions import agenda

LONGEST_WAIT = 7 * 86_400
"""Seconds after which a certification that no worker took is forgotten: a week, longer than any outage we expect."""
UNLIMITED = 1 << 53
"""A limit that is never reached; scripts read whole numbers up to this one exactly."""


@dataclass(frozen=True)
class Limits:
    """How much work a service accepts, in all and from one owner."""

    waiting: int
    """The most certifications that may wait in a queue."""
    active: int
    """The most certifications of one owner that may wait or be under way."""
    samples: int = UNLIMITED
    """The most samples that all these certifications of one owner may draw together, in the worst case."""
    bytes: int = UNLIMITED
    """The most bytes that all certifications that wait or are under way may hold."""
    owner_bytes: int = UNLIMITED
    """The most bytes that the certifications of one owner that wait or are under way may hold."""


def accept(record: Record, images: bytes, limits: Limits, *, idempotency: tuple[str, str] | None, high: bool) -> Call:
    """Take a certification in. `idempotency` is the key in Redis and the digest of the request.

    The size of the record is what its certificates are expected to take; that of its images is added here.
    """
    key, digest = idempotency or ("", "")
    record = replace(record, high=int(high), size=record.size + len(images), idempotency=key)
    ttl, queue = LONGEST_WAIT, record.queue
    written: list[Command] = [
        # The record outlives the images, so that a client is told what happened.
        ("HSET", keys.record(record.id), *pairs(record.mapping())),
        ("EXPIRE", keys.record(record.id), 2 * ttl),
        ("SET", keys.images(record.id), images, "EX", ttl),
        # The owner's list; earlier versions left entries there whose records are gone.
        ("ZADD", keys.owned(record.owner), record.created_at, record.id),
        ("ZREMRANGEBYSCORE", keys.owned(record.owner), "-inf", record.created_at - 2 * ttl),
        ("EXPIRE", keys.owned(record.owner), 2 * ttl),
        # What the owner has under way, which the script counts.
        ("ZADD", keys.active(record.owner), record.created_at + 2 * ttl, record.id),
        ("EXPIRE", keys.active(record.owner), 2 * ttl),
        ("HINCRBY", keys.BYTES, record.owner, record.size),
        ("HINCRBY", keys.SAMPLES, record.owner, record.budget),
        ("ZADD", keys.AGENDA, record.deadline_at or record.created_at + ttl, agenda.entry(record)),
        *bookkeeping.enqueue(record.id, queue, at_front=high),
        *waiting.enter(record),
    ]
    if idempotency:
        written.append(("SET", key, f"{digest} {record.id}", "EX", 2 * ttl))
    arguments = {
        "owner": record.owner,
        "id": record.id,
        "size": record.size,
        "budget": record.budget,
        "digest": digest,
        "now": record.created_at,
        "limits": asdict(limits),
        "names": waiting.names(record.pool),
    }
    read_keys = (
        key or keys.record(record.id),  # every key is one of ours: a user of Redis may have no other
        keys.record(record.id),
        bookkeeping.waiting_key(queue),
        keys.active(record.owner),
        keys.BYTES,
        keys.SAMPLES,
    )
    return Call(ACCEPT, read_keys, (json.dumps(arguments), *packed(written)))


def replay(idempotency: tuple[str, str]) -> Call:
    """Find what an idempotency key was used for, as `accept` does."""
    key, digest = idempotency
    return Call(REPLAY, (key,), (digest, keys.record("")))


def recount(now: float) -> Call:
    """Forget what was counted for owners without active certifications."""
    return Call(RECOUNT, (keys.BYTES, keys.SAMPLES), (now, keys.active("")))
