"""The life of a certification: every change of its record is one indivisible call, together with RQ's bookkeeping.

    queued ──> running ──> succeeded | failed
      │  ^        │
      │  └────────┤ handed back, or its worker died
      v           v
    canceled <─ canceling

    queued ──> failed, where the deadline passes before a worker begins

Every call has a guard: the statuses that the record may have and, for a worker's calls, the execution that it must
belong to. The first final status wins, because a later call (of a worker that was thought dead) fails its guard.

A certification that was divided (`store.division`) has several shards, which wait and run for themselves. A record that
is given here may stand for any of them. The shard that ends last ends the certification; one that fails, or that ends
because a client canceled, ends it for all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from typing import TypeVar

from smoothcert.certification import Status
from smoothcert.problem import Failure
from store import archival, bookkeeping, deliveries, keys, shards, waiting
from store.checkpoints import SavedCheckpoint, draw_field
from store.commands import Argument, Call, Command, as_text, guard, guarded, packed
from store.record import Record
from store.scripts.admission import ACCEPT, RECOUNT, REPLAY
from store.scripts.shards import FINISH
from store.statistics import counted

LONGEST_WAIT = 7 * 86_400
"""Seconds after which a certification that no worker took is forgotten: a week, longer than any outage we expect."""
KEPT_FINISHES = 100
"""The number of end times kept for each pool; the pace of the last hundred tells a client when to come back."""
MOST_DEATHS = 2
"""The number of workers that may die in a row with a certification that makes no progress, before it fails."""
MOST_BURIALS = 10
"""The number of workers that may die with a certification in all, progress or not, before it fails."""
PIECE_BYTES = 1_000_000
"""The bytes of certificates and checkpoints in one call, beyond which they are sent in several: a script that writes
them stops the server for about a millisecond."""
PIECE_ENTRIES = 1000
"""The number of certificates or checkpoints in one call: scripts take 8,000 arguments in one command."""
MOST_BYTES = 64_000_000
"""The bytes of one certificate or checkpoint. On half a gigabyte the server closes the connection, as if away."""
UNLIMITED = 1 << 53
"""A limit that is never reached; scripts read whole numbers up to this one exactly."""


@dataclass(frozen=True)
class Limits:
    """What a service accepts."""

    waiting: int
    """The most certifications that may wait in a queue."""
    active: int
    """The most certifications of one owner that may wait or be under way."""
    samples: int = UNLIMITED
    """The most samples that those may draw together, in the worst case."""
    bytes: int = UNLIMITED
    """The most bytes that all certifications that wait or are under way may hold."""
    owner_bytes: int = UNLIMITED
    """The most bytes that those of one owner may hold."""


_Text = TypeVar("_Text", str, SavedCheckpoint)


def accept(record: Record, images: bytes, limits: Limits, *, idempotency: tuple[str, str] | None, high: bool) -> Call:
    """Take a certification in. `idempotency` is the key in Redis and the digest of the request.

    The size of the record is what its certificates are expected to take; that of its images is added here.
    """
    key, digest = idempotency or ("", "")
    record = replace(record, high=int(high), size=record.size + len(images), idempotency=key)
    ttl, queue = LONGEST_WAIT, record.queue
    written: list[Command] = [
        # The record outlives the images, so that a client is told what happened.
        ("HSET", keys.record(record.id), *_pairs(record.mapping())),
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
        ("ZADD", keys.AGENDA, record.deadline_at or record.created_at + ttl, agenda_entry(record)),
        *bookkeeping.enqueue(record.id, queue, at_front=high),
        *waiting.enter(record),
    ]
    if idempotency:
        written.append(("SET", key, f"{digest} {record.id}", "EX", 2 * ttl))
    asked = {
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
    return Call(ACCEPT, read_keys, (json.dumps(asked), *packed(written)))


def replay(idempotency: tuple[str, str]) -> Call:
    """Find what an idempotency key was used for, as `accept` does."""
    key, digest = idempotency
    return Call(REPLAY, (key,), (digest, keys.record("")))


def agenda_entry(record: Record) -> str:
    """How the agenda of the janitor names a certification."""
    return f"{record.id} {record.owner}"


def begin(record: Record, worker: str, *, now: float, ttl: int) -> tuple[str, Call]:
    """A worker begins. Returns the id of its execution, and the call.

    From here on only this execution may write, until the certification ends or waits again.
    """
    execution, started = bookkeeping.begin(record.name, record.queue, worker, ttl=ttl)
    fields: dict[str, Argument] = {
        "status": "running",
        "execution": execution,
        "worker": worker,
        "samples_at_start": record.samples_saved,
    }
    if not record.started_at:
        fields["started_at"] = now
    commands = [put(record, fields), *started, _changed(record.id, "running")]
    return execution, guarded(keys.record(record.id), statuses=("queued",), shard=record.shard, commands=commands)


def drop(certification: str, queue: str) -> list[Command]:
    """Let go of an id that a worker took and cannot begin: another worker has begun it, or it has ended."""
    return [("LREM", bookkeeping.taken_key(queue), 1, certification)]


def refuse(certification: str, queue: str) -> list[Command]:
    """Remove a job that is not one of ours."""
    return [*drop(certification, queue), *bookkeeping.forget(certification)]


def beat(record: Record, execution: str, *, ttl: int) -> Call:
    """A heartbeat of the worker that holds the certification; none where it has ended or another worker has it."""
    return _held(record, execution, bookkeeping.beat(record.name, record.queue, execution, ttl=ttl))


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
    if too_large := _too_large(certificates or {}, checkpoints or {}):
        return _give_up(record, execution, too_large)
    first, last = _pieces(record, execution, checkpoints or {}, certificates or {})
    commands = [*last]
    fields: dict[str, Argument] = {}
    if progress is not None:
        fields["progress"] = progress
    if samples is not None:
        fields["samples_saved"] = samples
        if samples > record.samples_saved:
            fields["deaths"] = 0  # it made progress and the worker lives, so it did not kill the last one
    if fields:
        commands.append(put(record, fields))
    commands.append(_changed(record.id, "running"))
    return _held(record, execution, commands, first)


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
    if too_large := _too_large(certificates, {}):
        status, error, certificates = "failed", too_large, {}
        tally, end_tally = {"certifications:failed": 1}, {}
    first, last = _pieces(record, execution, {}, certificates)
    # 1. The last certificates. RQ: the execution ends, the worker's count grows.
    shard = [*last, *bookkeeping.end(record.name, record.queue, execution)]
    shard += [*_credit(record.worker, status), *counted(tally)]
    # 2. The end of all: the final status, RQ's job is forgotten or kept among the failed ones, the pace of the pool.
    ended = [
        *_freed(record.id),
        *_ended(record, status, now=now, ttl=ttl, progress=progress, error=error),
        *_job_of(record, error),
        ("LPUSH", keys.finished(record.pool), now),
        ("LTRIM", keys.finished(record.pool), 0, KEPT_FINISHES - 1),
        *counted(end_tally or {}),
    ]
    if status != "succeeded" or record.images == 1:
        return _held(record, execution, [*shard, *ended], first)
    left = as_text(_left(record, progress=progress))
    key, guarding = keys.record(record.id), guard(_UNDER_WAY, execution, record.shard)
    return Call(FINISH, (key,), (*guarding, left, as_text(ended), *packed(shard)), first)


def _left(record: Record, *, progress: str) -> list[Command]:
    """What is left of a shard that has ended while others have not."""
    shown = [put(record, {"progress": progress}), _changed(record.id, "running")]
    if not record.shard:  # its job stays for as long as the certification lasts
        return [put(record, {"execution": "", "worker": ""}), *shown]
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
    return _held(record, execution, commands)


def _give_up(record: Record, execution: str, failure: Failure) -> Call:
    """End a certification of which something is too large to be kept; its worker finds out at the next call."""
    now, ttl = time.time(), bookkeeping.FAILURE_TTL
    ended = _ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=failure)
    commands = [*_freed(record.id), *ended, *bookkeeping.end(record.name, record.queue, execution)]
    commands += [*_job_of(record, failure), *counted({"certifications:failed": 1})]
    return _held(record, execution, commands)


def hand_back(record: Record, execution: str, *, samples: int, checkpoints: Mapping[int, SavedCheckpoint]) -> Call:
    """A worker that shuts down gives a certification back; another worker goes on from the checkpoints."""
    if record.range:
        return end_range(record, execution)
    if too_large := _too_large({}, checkpoints):
        return _give_up(record, execution, too_large)
    first, last = _pieces(record, execution, checkpoints, {})
    commands = [*last, *_waiting_again(record, execution, to=record.queue, samples=samples, deaths=record.deaths)]
    return _guarded(record, ("running",), execution, commands, first)


def bury(record: Record, *, blamed: bool, now: float, ttl: int) -> Call:
    """The worker that held this certification is dead: it waits again, or fails once too many have died with it.

    `blamed` says whether the certification may have killed the worker.
    """
    if record.range:
        return end_range(record, record.execution)
    # Progress since the execution began clears it: what it does next is new.
    deaths = 0 if record.advanced else record.deaths + blamed
    execution = record.execution
    # Case 1: a client wanted it to end anyway.
    if record.status == "canceling":
        ended = [*_freed(record.id), *_ended(record, "canceled", now=now, ttl=ttl, progress=record.progress)]
        commands = [*ended, *bookkeeping.end(record.name, record.queue, execution), *bookkeeping.forget(record.id)]
        commands += counted({"certifications:canceled": 1})
    # Case 2: too many workers have died with it.
    elif deaths >= MOST_DEATHS or record.burials + 1 >= MOST_BURIALS:
        in_a_row = f"{deaths} workers in a row died with this certification, without any progress in between"
        in_all = f"{record.burials + 1} workers died with this certification"
        error = Failure(code="worker_died", detail=in_a_row if deaths >= MOST_DEATHS else in_all)
        failed = _ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=error)
        ended = [*_freed(record.id), *failed]
        commands = [*ended, *bookkeeping.end(record.name, record.queue, execution), *_job_of(record, error)]
        commands += counted({"certifications:failed": 1})
    # Case 3: it waits again, in quarantine while it is a suspect.
    else:
        to = bookkeeping.quarantine_name(record.pool) if deaths else bookkeeping.queue_name(record.pool)
        commands = _waiting_again(record, execution, to=to, samples=record.samples_saved, deaths=deaths)
        commands.append(put(record, {"burials": record.burials + 1}))
    return _held(record, execution, commands)


def put_back(record: Record) -> Call:
    """A worker took this certification and died before it began: it waits again, at the front."""
    commands = [*drop(record.name, record.queue), *waiting.put_back(record)]
    return _guarded(record, ("queued",), "", commands)


def cancel_waiting(record: Record, *, now: float, ttl: int) -> Call:
    """Cancel a certification that no worker has begun."""
    commands = [
        *_freed(record.id),
        *_ended(record, "canceled", now=now, ttl=ttl, progress=record.progress),
        waiting.leave(record),
        *bookkeeping.forget(record.id),
        *counted({"certifications:canceled": 1}),
    ]
    return guarded(keys.record(record.id), statuses=("queued",), commands=commands)


def miss(record: Record, *, now: float, ttl: int) -> Call:
    """The deadline passed before a worker began. The API calls this, too, because there may be no worker at all."""
    detail = "the deadline passed before a worker could begin" if record.deadline_at else "no worker began in time"
    error = Failure(code="deadline_exceeded", detail=detail)
    commands = [
        *_freed(record.id),
        *_ended(record, "failed", now=now, ttl=ttl, progress=record.progress, error=error),
        waiting.leave(record),
        *_job_of(record, error),
        *counted({"certifications:failed": 1}),
    ]
    return guarded(keys.record(record.id), statuses=("queued",), commands=commands)


def cancel_running(record: Record) -> Call:
    """Tell the worker to stop; the certification is canceled once it has."""
    commands = [
        ("HSET", keys.record(record.id), "status", "canceling"),
        bookkeeping.stop_command(record.id, record.worker),
        _changed(record.id, "canceling"),
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
        ("ZREM", keys.AGENDA, agenda_entry(record)),
        *bookkeeping.forget(record.id),
        bookkeeping.unlist(record.id, record.queue),
        _changed(record.id, keys.DELETED),
    ]
    if record.archive:
        commands += archival.erase(record.id, record.owner)
    return guarded(keys.record(record.id), statuses=("succeeded", "failed", "canceled"), commands=commands)


_UNDER_WAY = ("running", "canceling")
"""The statuses of a certification that a worker holds."""


def look_again(record: Record, *, at: float) -> Command:
    """Let the janitor look at a certification again at this time."""
    return ("ZADD", keys.AGENDA, "XX", at, agenda_entry(record))


def forget(certification: str, owner: str) -> list[Command]:
    """Remove the entries of a certification whose record has expired."""
    return [("ZREM", keys.owned(owner), certification), ("ZREM", keys.AGENDA, f"{certification} {owner}")]


def recount(now: float) -> Call:
    """Forget what was counted for owners of whom nothing is active."""
    return Call(RECOUNT, (keys.BYTES, keys.SAMPLES), (now, keys.active("")))


def _held(record: Record, execution: str, commands: Iterable[Command], first: tuple[Call, ...] = ()) -> Call:
    """Run the commands if this execution holds the certification."""
    return _guarded(record, _UNDER_WAY, execution, commands, first)


def _guarded(
    record: Record, statuses: tuple[str, ...], execution: str, commands: Iterable[Command], first: tuple[Call, ...] = ()
) -> Call:
    key, shard = keys.record(record.id), record.shard
    return guarded(key, statuses=statuses, execution=execution, shard=shard, commands=commands, first=first)


def _ended(
    record: Record, status: Status, *, now: float, ttl: int, progress: str, error: Failure | None = None
) -> list[Command]:
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
        *_disbanded(record),
        ("HSET", keys.record(record.id), *_pairs(fields)),
        ("EXPIRE", keys.record(record.id), 2 * kept),  # longer than the certificates: it is `expired` for a while
        ("EXPIRE", keys.certificates(record.id), kept),
        ("EXPIRE", keys.arrivals(record.id), kept),
        ("ZADD", keys.AGENDA, now + 2 * ttl, agenda_entry(record)),
        ("ZREM", keys.active(record.owner), record.id),
        ("HINCRBY", keys.BYTES, record.owner, -record.size),
        ("HINCRBY", keys.SAMPLES, record.owner, -record.budget),
        _changed(record.id, status),
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


def _freed(certification: str) -> list[Command]:
    """What nobody needs any more once a certification has ended."""
    gone = (keys.images, keys.checkpoints, keys.draws, keys.ranges)
    return [("UNLINK", *(key(certification) for key in gone))]


def _too_large(certificates: Mapping[int, str], checkpoints: Mapping[int, SavedCheckpoint]) -> Failure | None:
    """The failure of a certification of which one text is larger than the server takes."""
    for name, texts in (("certificate", certificates), ("checkpoint", checkpoints)):
        for index, text in texts.items():
            if len(text) > MOST_BYTES:
                detail = f"the {name} of image {index} has {len(text):,} bytes, at most {MOST_BYTES:,} can be kept"
                return Failure(code="result_too_large", detail=detail)
    return None


def _pieces(
    record: Record,
    execution: str,
    checkpoints: Mapping[int, SavedCheckpoint],
    certificates: Mapping[int, str],
) -> tuple[tuple[Call, ...], list[Command]]:
    """Calls that save all but the last piece, and the commands that save the last one."""
    saved: list[list[Command]] = [_checkpoints(record.id, piece) for piece in _split(checkpoints)]
    saved += [_certificates(record.id, piece) for piece in _split(certificates)]
    first = tuple(_held(record, execution, commands) for commands in saved[:-1])
    return first, saved[-1] if saved else []


def _split(texts: Mapping[int, _Text]) -> Iterator[dict[int, _Text]]:
    """Pieces of some images each. What belongs to one image stays together, so that all of it is saved or nothing."""
    piece: dict[int, _Text] = {}
    size = 0
    for index, text in texts.items():
        if piece and (size + len(text) > PIECE_BYTES or len(piece) == PIECE_ENTRIES):
            yield piece
            piece, size = {}, 0
        piece[index] = text
        size += len(text)
    if piece:
        yield piece


def _checkpoints(certification: str, checkpoints: Mapping[int, SavedCheckpoint]) -> list[Command]:
    drawn = [(draw_field(place, n), text) for place, each in checkpoints.items() for n, text in each.draws.items()]
    pieces = [drawn[at : at + PIECE_ENTRIES] for at in range(0, len(drawn), PIECE_ENTRIES)]
    return [
        ("HSET", keys.checkpoints(certification), *_pairs({place: each.rest for place, each in checkpoints.items()})),
        ("EXPIRE", keys.checkpoints(certification), LONGEST_WAIT),
        *(("HSET", keys.draws(certification), *chain.from_iterable(piece)) for piece in pieces),
        ("EXPIRE", keys.draws(certification), LONGEST_WAIT),
    ]


def _certificates(certification: str, certificates: Mapping[int, str]) -> list[Command]:
    kept, arrivals = keys.certificates(certification), keys.arrivals(certification)
    return [
        ("HSET", kept, *_pairs(certificates)),
        ("EXPIRE", kept, LONGEST_WAIT),
        ("smoothcert.arrive", keys.record(certification), kept, arrivals, *map(str, certificates)),
        ("EXPIRE", arrivals, LONGEST_WAIT),
        ("HDEL", keys.checkpoints(certification), *map(str, certificates)),
        ("smoothcert.undraw", keys.draws(certification), *map(str, certificates)),
    ]


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
        put(record, fields),
        *bookkeeping.requeue(record.name, record.queue, execution, to=to),
        *waiting.put_back(again),
        _changed(record.id, "queued"),
    ]


def _job_of(record: Record, error: Failure | None) -> list[Command]:
    """RQ keeps a failed job for its own tools; any other job is removed, and our record remains."""
    if error is None:
        return bookkeeping.forget(record.id)
    return bookkeeping.fail(record.id, record.queue, json.dumps(error.model_dump()))


def _credit(worker: str, status: Status) -> list[Command]:
    """RQ counts the jobs of a worker that succeeded and that failed; a canceled one is neither."""
    counts = worker and status != "canceled"
    return [bookkeeping.credit(worker, failed=status == "failed")] if counts else []


def put(record: Record, fields: Mapping[str, Argument]) -> Command:
    """Write fields of a record; those that each shard has for itself go where its own are."""
    return ("HSET", keys.record(record.id), *_pairs({shards.field(n, record.shard): v for n, v in fields.items()}))


def _changed(certification: str, status: str) -> Command:
    return ("PUBLISH", keys.changed(certification), status)


def _pairs(mapping: Mapping[str, Argument] | Mapping[int, str] | Mapping[int, str | bytes]) -> Iterable[Argument]:
    for name, value in mapping.items():
        yield str(name)
        yield value
