"""What waits in a pool: a list for each owner, and the owners are served in turn.

    smoothcert:waiting:POOL:OWNER   what waits of one owner, the oldest first
    smoothcert:turns:POOL           the owners with something that waits, in the order of their turns
    smoothcert:urgent:POOL:OWNER    what waits of one owner and has priority
    smoothcert:urgent-turns:POOL    the owners with something of priority that waits; they are served before the others
    rq:queue:smoothcert-POOL        RQ's list of all of them

The sorted sets decide what is taken. They find a certification and its place in a time that hardly grows with their
length. RQ's list is what `rq info`, rq-dashboard and autoscalers count. Beyond `scripts.waiting.LONG_LIST` entries it
may name a certification for a while that no longer waits.

Suspects wait in RQ's list of the quarantine alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from store import bookkeeping, keys
from store.commands import Call, Command
from store.record import Record
from store.scripts.taking import TAKE, TAKE_SUSPECT
from store.scripts.waiting import PLACES, READ

ANONYMOUS = "anonymous"
"""The owner of all certifications of a service without keys. There is no other, so it needs no share."""
MOST_RINGS = 8
"""The number of idle workers that can be called at a time; the others look every second by themselves."""


class Looking(NamedTuple):
    """A worker that looks for work, as the others see it."""

    worker: str
    now: float
    until: float
    """When it does not count any more, unless it looks again."""


def enter(record: Record) -> list[Command]:
    """Let a certification wait that RQ's list has already."""
    return [_entering(record, ""), *_ring(record.pool)]


def enter_again(record: Record) -> list[Command]:
    """Let a certification wait again, at its old place and at the front of RQ's list; no effect if it waits."""
    return [_entering(record, bookkeeping.waiting_key(bookkeeping.queue_name(record.pool))), *_ring(record.pool)]


def leave(record: Record) -> Command:
    """Let a certification wait no longer."""
    if _quarantined(record):
        return ("LREM", bookkeeping.waiting_key(record.queue), 1, record.name)
    return ("smoothcert.leave", lane_of(record), record.name, bookkeeping.waiting_key(record.queue))


def leave_as(name: str, queue: str, lane: str) -> Command:
    """The same as `leave`, for a name that stands in a lane or, as a suspect, in RQ's list of the quarantine alone."""
    return ("smoothcert.leave", lane, name, bookkeeping.waiting_key(queue))


def put_back(record: Record) -> list[Command]:
    """Let a certification wait again that was taken and not begun; an id that is put back twice waits once.

    A suspect waits last, because the worker may be unable to begin it, and others wait behind it.
    """
    if _quarantined(record):
        waiting = bookkeeping.waiting_key(record.queue)
        return [("LREM", waiting, 0, record.name), ("RPUSH", waiting, record.name)]
    return enter_again(record)


def take(
    pool: str,
    *,
    most: int,
    most_bytes: int,
    busy: bool,
    share: int,
    held: Mapping[str, int],
    under_way: Iterable[str] = (),
    passed: Iterable[str] = (),
    idle: tuple[str, float] | None = None,
    among: Looking | None = None,
    holds: Iterable[str] = (),
    begin: str = "",
) -> Call:
    """Take up to `most` certifications with up to `most_bytes` of images; `share` of one owner, together with `held`.

    A worker that is not `busy` may take one of any size. It takes no further shard of the certifications that it has
    `under_way`, and none of those `passed`, which it leaves to others. Where it finds nothing, it counts as `idle`: its
    name, and until when. As one `among` others that look for work, it takes no more than brings it level with them, and
    the one that has least is called for what it leaves. What waits for an ensemble that it `holds` is begun in the same
    call, by the commands of `lease.beginning`. The answer is for `taken`.
    """
    queue = bookkeeping.queue_name(pool)
    arguments = {
        "queue": queue,
        "holds": dict.fromkeys(holds, True),
        "most": most,
        "bytes": most_bytes,
        "busy": busy,
        "share": share,
        "free": ANONYMOUS,
        "held": dict(held),
        "lanes": keys.waiting(pool, ""),
        "urgent": keys.urgent(pool, ""),
        "records": keys.record(""),
        "mine": dict.fromkeys(under_way, True),
        "passed": dict.fromkeys(passed, True),
        "worker": idle[0] if idle else "",
        "until": idle[1] if idle else 0,
        "among": among._asdict() if among else None,
        "summons": keys.summons(""),
    }
    lists = (bookkeeping.waiting_key(queue), bookkeeping.taken_key(queue))
    sets = (keys.urgent_turns(pool), keys.turns(pool), keys.idle(pool), keys.loads(pool))
    return Call(TAKE, (*lists, *sets), (begin, json.dumps(arguments)))


def taken(answer: tuple[int, Sequence[bytes]]) -> tuple[bool, list[str]]:
    """Whether something waits that may be taken as soon as what is under way ends, and the names that were taken."""
    blocked, ids = answer
    return bool(blocked), [each.decode() for each in ids]


def take_suspect(pool: str) -> Call:
    queue = bookkeeping.quarantine_name(pool)
    return Call(TAKE_SUSPECT, (bookkeeping.waiting_key(queue), bookkeeping.taken_key(queue)), ())


def look_no_more(pool: str, worker: str) -> list[Command]:
    """Let a worker that leaves count no longer, as idle or as one among others."""
    return [("ZREM", keys.idle(pool), worker), ("HDEL", keys.loads(pool), worker)]


def read(certification: str, *, owner: str = "", certificates: int = 0) -> Call:
    """Read the record of a certification, its place, and the certificates of its first images, if it has finished any.

    It must belong to this owner; '' for any owner.
    """
    prefixes = {
        "lanes": "smoothcert:waiting:",
        "turns": keys.turns(""),
        "urgent": "smoothcert:urgent:",
        "urgent_turns": keys.urgent_turns(""),
        "lists": bookkeeping.WAITING_PREFIX,
    }
    names = keys.record(certification), keys.certificates(certification)
    return Call(READ, names, (owner, json.dumps(prefixes), certificates))


def places(records: Sequence[Record]) -> Call:
    """The places of certifications of one owner that wait in one pool."""
    pool, owner = records[0].pool, records[0].owner
    waiting = [part for each in records for part in (each.id, bookkeeping.waiting_key(each.queue))]
    return Call(PLACES, (), (json.dumps(names(pool)), owner, *waiting))


def names(pool: str) -> dict[str, str]:
    """The keys of a pool, as the scripts need them."""
    return {
        "lanes": keys.waiting(pool, ""),
        "turns": keys.turns(pool),
        "urgent": keys.urgent(pool, ""),
        "urgent_turns": keys.urgent_turns(pool),
        "records": keys.record(""),
    }


def enter_divided(record: Record) -> Command:
    """Let a shard wait that RQ's list has already; the script that divides calls an idle worker."""
    return _entering(record, "")


def _entering(record: Record, rq_list: str) -> Command:
    turns = keys.urgent_turns(record.pool) if record.high else keys.turns(record.pool)
    return ("smoothcert.enter", lane_of(record), turns, record.owner, record.name, record.created_at, rq_list)


def lane_of(record: Record) -> str:
    """The sorted set in which a certification waits."""
    return (keys.urgent if record.high else keys.waiting)(record.pool, record.owner)


def _quarantined(record: Record) -> bool:
    return record.queue == bookkeeping.quarantine_name(record.pool)


def _ring(pool: str) -> list[Command]:
    return [("LPUSH", keys.bell(pool), 1), ("LTRIM", keys.bell(pool), 0, MOST_RINGS - 1)]
