"""The agenda of the janitor: when it is to look at a certification."""

from __future__ import annotations

from store import keys
from store.commands import Command
from store.record import Record


def entry(record: Record) -> str:
    """How the agenda names a certification."""
    return f"{record.id} {record.owner}"


def look_again(record: Record, *, at: float) -> Command:
    """Let the janitor look at a certification again at this time."""
    return ("ZADD", keys.AGENDA, "XX", at, entry(record))


def forget(certification: str, owner: str) -> list[Command]:
    """Remove the entries of a certification whose record has expired."""
    return [("ZREM", keys.owned(owner), certification), ("ZREM", keys.AGENDA, f"{certification} {owner}")]
