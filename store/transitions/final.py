"""What every end of a certification writes, whatever brings it about."""

from __future__ import annotations

import json
from functools import cache

from smoothcert.certification import Status
from smoothcert.problem import Failure
from store import archival, bookkeeping, deliveries, keys, shards, waiting
from store.commands import Argument, Command, as_text, pairs
from store.record import Record
from store.transitions import agenda, writing


def ended(
    record: Record, status: Status, *, now: float, ttl: int, progress: str, error: Failure | None = None
) -> list[Command]:
    """The final status, what is kept and for how long, and the messages about the end."""
    fields: dict[str, Argument] = {
        "status": status,
        "finished_at": now,
        "expires_at": now + ttl,
        shards.field("progress", record.shard): progress,
        "error": error.model_dump_json() if error else "",
        "queue": record.queue,  # RQ's tools list a failure there
    }
    kept = max(ttl, archival.KEPT_S) if record.archive else ttl  # `archival.written` shortens it
    commands: list[Command] = [
        *_freed(record, kept),
        *_disbanded(record),
        ("HSET", keys.record(record.id), *pairs(fields)),
        ("EXPIRE", keys.record(record.id), 2 * kept),  # longer than the certificates: it is `expired` for a while
        ("EXPIRE", keys.certificates(record.id), kept),
        ("EXPIRE", keys.arrivals(record.id), kept),
        ("ZADD", keys.AGENDA, now + 2 * ttl, agenda.entry(record)),
        ("ZREM", keys.active(record.owner), record.id),
        ("HINCRBY", keys.BYTES, record.owner, -record.size),
        ("HINCRBY", keys.SAMPLES, record.owner, -record.budget),
        writing.changed(record.id, status),
        *writing.announced(record, status),
    ]
    if record.idempotency:
        commands.append(("EXPIRE", record.idempotency, 2 * ttl))
    if record.archive:
        commands += archival.enter(record)
    if record.webhook:
        commands += deliveries.enqueue(record, status, now=now, error=error)
    return commands


def _disbanded(record: Record) -> list[Command]:
    """End all shards at once: they wait no longer, RQ forgets them, and their workers find out at the next call."""
    if not record.divisible:
        return []
    return [("smoothcert.disband", keys.record(record.id), record.id, waiting.lane_of(record), *_disbanding())]


@cache
def _disbanding() -> tuple[str, str]:
    """Commands for each shard, and for all but the first; the script fills in which, because only the server knows."""
    name, queue, execution, lane = "__name__", "__queue__", "__execution__", "__lane__"
    each = [waiting.leave_as(name, queue, lane), *bookkeeping.end(name, queue, execution)]
    return as_text(each), as_text(bookkeeping.forget(name))


def _freed(record: Record, kept: int) -> list[Command]:
    """Delete what is not needed after the end of a certification; images that the archive lacks wait for it."""
    gone = [keys.checkpoints, keys.draws, keys.ranges]
    if not record.archives_images:
        return [("UNLINK", *(key(record.id) for key in (keys.images, *gone)))]
    return [("UNLINK", *(key(record.id) for key in gone)), ("EXPIRE", keys.images(record.id), kept)]


def job_of(record: Record, error: Failure | None) -> list[Command]:
    """RQ keeps a failed job for its own tools; any other job is removed, and our record remains."""
    if error is None:
        return bookkeeping.forget(record.id)
    return bookkeeping.fail(record.id, record.queue, json.dumps(error.model_dump()))
