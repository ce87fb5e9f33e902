"""How a certification is divided: a worker gives images away, as a new shard, because another worker is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from store import bookkeeping, keys, shards, waiting
from store.commands import Argument, Call, Command, guard, packed
from store.record import Record
from store.scripts.shards import DIVIDE
from store.transitions import admission, writing


def count_idle(pool: str, *, now: float) -> Command:
    """How many workers of a pool are idle."""
    return ("ZCOUNT", keys.idle(pool), now, "+inf")


def divide(
    record: Record,
    execution: str,
    name: str,
    *,
    kept: Sequence[int],
    given: Sequence[int],
    samples_kept: int,
    samples_given: int,
    further: bool,
    now: float,
) -> Call:
    """Give images away, as a shard with this name, if a worker is idle; the call is not carried out otherwise.

    `kept` and `given` are the places that the two shards have from now on, and the samples are those that have been
    saved of each. `further` says whether this execution has come further than it began, which must still be seen.
    """
    shard = replace(record, shard=name, queue=bookkeeping.queue_name(record.pool))
    own: dict[str, Argument] = {
        "status": "queued",
        "queue": shard.queue,
        "execution": "",
        "worker": "",
        "places": shards.write_places(given),
        "samples_at_start": 0,
        "samples_saved": samples_given,
        "deaths": 0,
        "burials": record.burials,
    }
    left: dict[str, Argument] = {
        "places": shards.write_places(kept),
        "samples_saved": samples_kept,
        "samples_at_start": samples_kept - further,
    }
    commands = [
        writing.put(record, left),
        writing.put(shard, own),
        *bookkeeping.enqueue(shard.name, shard.queue, at_front=bool(record.high)),
        waiting.enter_divided(shard),
    ]
    guarding = guard(("running",), execution, record.shard)
    values = (*guarding, name, record.worker, now, keys.summons(""), 1, *packed(commands))
    return Call(DIVIDE, (keys.record(record.id), keys.idle(record.pool)), values)


def give_range(
    record: Record, execution: str, name: str, *, place: int, start: int, stop: int, checkpoint: str, now: float
) -> Call:
    """Let an idle worker draw the samples start, ..., stop - 1 of an image, as a shard that may be forgotten.

    `checkpoint` is where it begins. The call is not carried out if no worker is idle.
    """
    shard = replace(record, shard=name, queue=bookkeeping.queue_name(record.pool))
    own: dict[str, Argument] = {
        "status": "queued",
        "queue": shard.queue,
        "execution": "",
        "worker": "",
        "places": str(place),
        "range": f"{start}-{stop}",
    }
    commands: list[Command] = [
        ("HSET", keys.ranges(record.id), name, checkpoint),
        ("EXPIRE", keys.ranges(record.id), admission.LONGEST_WAIT),
        writing.put(shard, own),
        *bookkeeping.enqueue(shard.name, shard.queue, at_front=bool(record.high)),
        waiting.enter_divided(shard),
    ]
    guarding = guard(("running",), execution, record.shard)
    values = (*guarding, name, record.worker, now, keys.summons(""), 0, *packed(commands))
    return Call(DIVIDE, (keys.record(record.id), keys.idle(record.pool)), values)


def read_range(certification: str, name: str) -> Command:
    """The checkpoint of a range; nothing if it was forgotten."""
    return ("HGET", keys.ranges(certification), name)
