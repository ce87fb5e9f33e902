"""Allowances that all API processes share: a number of uses in a time, and for each refused client a time to come
back."""

from __future__ import annotations

from dataclasses import dataclass

from store import keys
from store.commands import Call
from store.scripts.allowances import COME_BACK, SPEND


@dataclass(frozen=True)
class Allowance:
    """How often each member of a set may do something."""

    key: str
    """The set in Redis."""
    seconds: float
    """The seconds after which one use comes back."""
    uses: int
    """The uses at a time."""
    members: int
    """The number of members that are remembered; bounds the memory that an attacker can take."""


def spend(allowance: Allowance, member: str, wanted: int) -> Call:
    """Use an allowance up to `wanted` times."""
    values = (member, allowance.seconds, allowance.uses, wanted, allowance.members)
    return Call(SPEND, (allowance.key,), values)


def come_back(line: str, *, room: float, pause: float, spread: float) -> Call:
    """The seconds after which the next client that found no room should return; each line has its own times.

    `room` are those until there is room for one, `pause` those between two clients, and `spread` bounds how far ahead
    clients are told to return.
    """
    return Call(COME_BACK, (keys.comeback(line),), (room, pause, spread))
