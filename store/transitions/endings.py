"""The ends that no client asked for: the worker is done, something is too large, or the deadline has passed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from smoothcert.certification import Status
from smoothcert.problem import Failure
from store import bookkeeping, keys, shards, waiting
from store.commands import Call, Command, as_text, guard, guarded, packed
from store.record import Record
from store.scripts.shards import FINISH
from store.statistics import counted
from store.transitions import final, pieces, writing

KEPT_FINISHES = 100
"""The number of end times kept for each pool; the pace of the last hundred tells a client when to come back."""


def finish(
    record: Record,
    execution: str,
    status: Status,
    *,
    now: float,
    ttl: int,
    certificates: Mapping[int, str],
    progress: str,
    error: Failure | None = None,
    tally: Mapping[str, float],
    end_tally: Mapping[str, float] | None = None,
) -> Call:
    """The worker that holds the certification, or a shard of it, ends it.

    `tally` is added to the statistics, and `end_tally` too if the certification ends.
    """
    if too_large := pieces.too_large(certificates, {}):
        status, error, certificates = "failed", too_large, {}
        tally, end_tally = {"certifications:failed": 1}, {}
    first, last = pieces.saving(record, execution, {}, certificates)
    # 1. The last certificates. RQ: the execution ends, the worker's count grows.
    shard = [*last, *bookkeeping.end(record.name, record.queue, execution)]
    shard += [*_credit(record.worker, status), *counted(tally)]
    # 2. The end of all: the final status, RQ's job is forgotten or kept among the failed ones, the pace of the pool.
    ended = [
        *final.ended(record, status, now=now, ttl=ttl, progress=progress, error=error),
        *final.job_of(record, error),
        ("LPUSH", keys.finished(record.pool), now),
        ("LTRIM", keys.finished(record.pool), 0, KEPT_FINISHES - 1),
        *counted(end_tally or {}),
    ]
    if status != "succeeded" or record.images == 1:
        return writing.held(record, execution, [*shard, *ended], first)
    left = as_text(_left(record, progress=progress))
    key, guarding = keys.record(record.id), guard(writing.UNDER_WAY, execution, record.shard)
    return Call(FINISH, (key,), (*guarding, left, as_text(ended), *packed(shard)), first)


def _left(record: Record, *, progress: str) -> list[Command]:
    """What is left of a shard that has ended while others have not."""
    shown = [writing.put(record, {"progress": progress}), writing.changed(record.id, "running")]
    if not record.shard:  # its job stays for as long as the certification lasts
        return [writing.put(record, {"execution": "", "worker": ""}), *shown]
    gone = [shards.field(name, record.shard) for name in sorted(shards.OWN - shards.LASTING)]
    return [("HDEL", keys.record(record.id), *gone), *bookkeeping.forget(record.name), *shown]


def end_range(record: Record, execution: str, *, checkpoint: str | None = None, credited: bool = False) -> Call:
    """A range ends: it is complete if there is a checkpoint, and otherwise forgotten. The certification goes on."""
    gone = [shards.field(name, record.shard) for name in sorted(shards.OWN)]
    key, name = keys.ranges(record.id), record.shard
    commands: list[Command] = [
        ("HSET", key, name, checkpoint) if checkpoint else ("HDEL", key, name),
        ("HDEL", keys.record(record.id), *gone),
        *bookkeeping.end(record.name, record.queue, execution),
        *bookkeeping.forget(record.name),
        *(_credit(record.worker, "succeeded") if credited else []),
    ]
    return writing.held(record, execution, commands)


def give_up(record: Record, execution: str, failure: Failure) -> Call:
    """End a certification because a part of it is too large to be kept; its worker finds out at the next call."""
    now, ttl = time.time(), bookkeeping.FAILURE_TTL
    ended = final.ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=failure)
    commands = [*ended, *bookkeeping.end(record.name, record.queue, execution)]
    commands += [*final.job_of(record, failure), *counted({"certifications:failed": 1})]
    return writing.held(record, execution, commands)


def miss(record: Record, *, now: float, ttl: int) -> Call:
    """The deadline passed before a worker began. The API calls this, too, because there may be no worker at all."""
    detail = "the deadline passed before a worker could begin" if record.deadline_at else "no worker began in time"
    error = Failure(code="deadline_exceeded", detail=detail)
    commands = [
        *final.ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=error),
        waiting.leave(record),
        *final.job_of(record, error),
        *counted({"certifications:failed": 1}),
    ]
    return guarded(keys.record(record.id), statuses=("queued",), commands=commands)


def _credit(worker: str, status: Status) -> list[Command]:
    """RQ counts the jobs of a worker that succeeded and that failed; a canceled one is neither."""
    counts = worker and status != "canceled"
    return [bookkeeping.credit(worker, failed=status == "failed")] if counts else []
