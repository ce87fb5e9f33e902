"""How a change is written: fields of a record, the news of it, and the guard of the shard that it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from store import keys, shards
from store.commands import Argument, Call, Command, guarded, pairs
from store.record import Record

UNDER_WAY = ("running", "canceling")
"""The statuses of a certification that a worker holds."""


def put(record: Record, fields: Mapping[str, Argument]) -> Command:
    """Write fields of a record; those that each shard has for itself go where its own are."""
    return ("HSET", keys.record(record.id), *pairs({shards.field(n, record.shard): v for n, v in fields.items()}))


def changed(certification: str, status: str) -> Command:
    return ("PUBLISH", keys.changed(certification), status)


def announced(record: Record, status: str) -> list[Command]:
    """Tell the end to the API process whose client has waited for it since the request.

    It need not subscribe to every certification of its own.
    """
    return [("PUBLISH", keys.ends(record.api), f"{record.id} {status}")] if record.api else []


def held(record: Record, execution: str, commands: Iterable[Command], first: tuple[Call, ...] = ()) -> Call:
    """Run the commands if this execution holds the certification."""
    return guarded_shard(record, UNDER_WAY, execution, commands, first)


def guarded_shard(
    record: Record, statuses: tuple[str, ...], execution: str, commands: Iterable[Command], first: tuple[Call, ...] = ()
) -> Call:
    """Run the commands if the shard that the record stands for has one of these statuses and this execution."""
    key, shard = keys.record(record.id), record.shard
    return guarded(key, statuses=statuses, execution=execution, shard=shard, commands=commands, first=first)
