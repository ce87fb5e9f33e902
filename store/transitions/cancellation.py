"""What a client may do with its certification: cancel it, and delete it once it has ended."""

from __future__ import annotations

from store import archival, bookkeeping, keys, waiting
from store.commands import Call, Command, guarded
from store.record import Record
from store.statistics import counted
from store.transitions import agenda, final, writing


def cancel_waiting(record: Record, *, now: float, ttl: int) -> Call:
    """Cancel a certification that no worker has begun."""
    commands = [
        *final.ended(record, "canceled", now=now, ttl=ttl, progress=record.progress),
        waiting.leave(record),
        *bookkeeping.forget(record.id),
        *counted({"certifications:canceled": 1}),
    ]
    return guarded(keys.record(record.id), statuses=("queued",), commands=commands)


def cancel_running(record: Record) -> Call:
    """Tell the worker to stop; the certification is canceled once it has."""
    commands = [
        ("HSET", keys.record(record.id), "status", "canceling"),
        bookkeeping.stop_command(record.id, record.worker),
        writing.changed(record.id, "canceling"),
    ]
    # The first of several shards may end meanwhile; the workers of all of them see the status at their next report.
    execution = record.execution if record.images == 1 else ""
    return guarded(keys.record(record.id), statuses=("running",), execution=execution, commands=commands)


def delete(record: Record) -> Call:
    """Delete a certification that has ended, with everything that is kept of it.

    Its Idempotency-Key stays until it would have expired, so that a repeated request does not draw anew.
    """
    removed = (keys.record, keys.images, keys.certificates, keys.arrivals, keys.checkpoints, keys.draws)
    commands: list[Command] = [
        ("UNLINK", *(key(record.id) for key in removed)),
        ("ZREM", keys.owned(record.owner), record.id),
        ("ZREM", keys.AGENDA, agenda.entry(record)),
        *bookkeeping.forget(record.id),
        bookkeeping.unlist(record.id, record.queue),
        writing.changed(record.id, keys.DELETED),
    ]
    if record.archive:
        commands += archival.erase(record.id, record.owner)
    return guarded(keys.record(record.id), statuses=("succeeded", "failed", "canceled"), commands=commands)
