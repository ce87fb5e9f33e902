"""The lease of a worker on a certification: it begins, beats and saves, and gives back what it cannot end.

A worker that dies gives nothing back: the janitor buries it, and the certification waits again or fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from smoothcert.problem import Failure
from store import bookkeeping, keys, waiting
from store.checkpoints import SavedCheckpoint
from store.commands import Argument, Call, Command, as_text, guard, packed, pairs
from store.record import Record
from store.scripts.commands import DROP, TAKEN
from store.shards import parse_name
from store.statistics import counted
from store.transitions import endings, final, pieces, writing

MOST_DEATHS = 2
"""The number of workers that may die in a row with a certification that makes no progress, before it fails."""
MOST_BURIALS = 10
"""The number of workers that may die with a certification in all, progress or not, before it fails."""


class Beginning(NamedTuple):
    """How a look at the queue begins what it takes."""

    execution: str
    """The id of each execution."""
    now: float
    commands: str
    """For `waiting.take`, whose script fills in the names of what it takes."""


def begin(record: Record, worker: str, *, now: float, ttl: int) -> tuple[str, Call]:
    """A worker begins. Returns the id of its execution, and the call.

    From here on only this execution may write, until the certification ends or waits again.
    """
    suffix = f"/{record.shard}" if record.shard else ""
    execution, commands = _beginning(record.name, record.id, suffix, record.queue, worker, now=now, ttl=ttl)
    return execution, _of_taken(record, commands)


def beginning(queue: str, worker: str, *, now: float, ttl: int) -> Beginning:
    """For a look, which begins what it takes."""
    names = "__name__", "__certification__", "__suffix__"
    execution, commands = _beginning(*names, queue, worker, now=now, ttl=ttl)
    return Beginning(execution, now, as_text(commands))


def _beginning(
    name: str, certification: str, suffix: str, queue: str, worker: str, *, now: float, ttl: int
) -> tuple[str, list[Command]]:
    execution, started = bookkeeping.begin(name, queue, worker, ttl=ttl)
    fields = {f"status{suffix}": "running", f"execution{suffix}": execution, f"worker{suffix}": worker}
    return execution, [
        ("HSET", keys.record(certification), *pairs(fields)),
        ("smoothcert.start", keys.record(certification), suffix, now),
        *started,
        writing.changed(certification, "running"),
    ]


def drop(name: str, queue: str) -> Call:
    """Let go of an id that was taken and cannot be begun: it has ended, or waits in another queue.

    One that waits to be begun stays: another worker may have taken it since the caller has looked.
    """
    certification, shard = parse_name(name)
    names = keys.record(certification), bookkeeping.taken_key(queue)
    return Call(DROP, names, (f"/{shard}" if shard else "", name, queue))


def refuse(certification: str, queue: str) -> list[Command]:
    """Remove a job that is not one of ours."""
    return [("LREM", bookkeeping.taken_key(queue), 1, certification), *bookkeeping.forget(certification)]


def beat(record: Record, execution: str, *, ttl: int) -> Call:
    """A heartbeat of the worker that holds the certification; none where it has ended or another worker has it."""
    return writing.held(record, execution, bookkeeping.beat(record.name, record.queue, execution, ttl=ttl))


def save(
    record: Record,
    execution: str,
    *,
    progress: str | None = None,
    samples: int | None = None,
    checkpoints: Mapping[int, SavedCheckpoint] | None = None,
    certificates: Mapping[int, str] | None = None,
) -> Call:
    """Save progress, checkpoints and finished certificates.

    `samples` are those of the checkpoints; more than the last time clears a suspect.
    """
    if too_large := pieces.too_large(certificates or {}, checkpoints or {}):
        return endings.give_up(record, execution, too_large)
    first, last = pieces.saving(record, execution, checkpoints or {}, certificates or {})
    commands = [*last]
    fields: dict[str, Argument] = {}
    if progress is not None:
        fields["progress"] = progress
    if samples is not None:
        fields["samples_saved"] = samples
        if samples > record.samples_saved:
            fields["deaths"] = 0  # it made progress and the worker lives, so it did not kill the last one
    if fields:
        commands.append(writing.put(record, fields))
    commands.append(writing.changed(record.id, "running"))
    return writing.held(record, execution, commands, first)


def hand_back(record: Record, execution: str, *, samples: int, checkpoints: Mapping[int, SavedCheckpoint]) -> Call:
    """A worker that shuts down gives a certification back; another worker goes on from the checkpoints."""
    if record.range:
        return endings.end_range(record, execution)
    if too_large := pieces.too_large({}, checkpoints):
        return endings.give_up(record, execution, too_large)
    first, last = pieces.saving(record, execution, checkpoints, {})
    commands = [*last, *_waiting_again(record, execution, to=record.queue, samples=samples, deaths=record.deaths)]
    return writing.guarded_shard(record, ("running",), execution, commands, first)


def put_back(record: Record) -> Call:
    """A worker took this certification and died before it began, or cannot begin it: it waits again, at its place."""
    return _of_taken(record, waiting.put_back(record))


def bury(record: Record, *, blamed: bool, now: float, ttl: int) -> Call:
    """The worker that held this certification is dead: it waits again, or fails once too many have died with it.

    `blamed` says whether the certification may have killed the worker.
    """
    if record.range:
        return endings.end_range(record, record.execution)
    # Progress since the execution began clears it: what it does next is new.
    deaths = 0 if record.advanced else record.deaths + blamed
    execution = record.execution
    # Case 1: a client wanted it to end anyway.
    if record.status == "canceling":
        ended = final.ended(record, "canceled", now=now, ttl=ttl, progress=record.progress)
        commands = [*ended, *bookkeeping.end(record.name, record.queue, execution), *bookkeeping.forget(record.id)]
        commands += counted({"certifications:canceled": 1})
    # Case 2: too many workers have died with it.
    elif deaths >= MOST_DEATHS or record.burials + 1 >= MOST_BURIALS:
        in_a_row = f"{deaths} workers in a row died with this certification, without any progress in between"
        in_all = f"{record.burials + 1} workers died with this certification"
        error = Failure(code="worker_died", detail=in_a_row if deaths >= MOST_DEATHS else in_all)
        ended = final.ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=error)
        commands = [*ended, *bookkeeping.end(record.name, record.queue, execution), *final.job_of(record, error)]
        commands += counted({"certifications:failed": 1})
    # Case 3: it waits again, in quarantine while it is a suspect.
    else:
        to = bookkeeping.quarantine_name(record.pool) if deaths else bookkeeping.queue_name(record.pool)
        commands = _waiting_again(record, execution, to=to, samples=record.samples_saved, deaths=deaths)
        commands.append(writing.put(record, {"burials": record.burials + 1}))
    return writing.held(record, execution, commands)


def _of_taken(record: Record, commands: Iterable[Command]) -> Call:
    """Run the commands if the certification is among those that were taken from its queue and not begun."""
    names = keys.record(record.id), bookkeeping.taken_key(record.queue)
    return Call(TAKEN, names, (*guard(("queued",), "", record.shard), record.name, *packed(commands)))


def _waiting_again(record: Record, execution: str, *, to: str, samples: int, deaths: int) -> list[Command]:
    fields: dict[str, Argument] = {
        "status": "queued",
        "execution": "",
        "worker": "",
        "queue": to,
        "samples_saved": samples,
        "deaths": deaths,
    }
    again = replace(record, queue=to)
    return [
        writing.put(record, fields),
        *bookkeeping.requeue(record.name, record.queue, execution, to=to),
        *waiting.put_back(again),
        writing.changed(record.id, "queued"),
    ]
