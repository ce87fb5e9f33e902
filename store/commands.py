"""Commands for Redis as data, and calls of the scripts that run all of them or none.

RQ's bookkeeping goes through the same scripts as our record, so a crash cannot separate the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from store.scripts.commands import ANSWERED, GUARDED, UNGUARDED

Argument = str | bytes | int | float
Command = tuple[Argument, ...]


@dataclass(frozen=True)
class Call:
    """A script with its keys and arguments, ready for `redis.eval(*call.arguments)`."""

    script: str
    keys: tuple[str, ...]
    values: tuple[Argument, ...]
    first: tuple[Call, ...] = ()
    """Calls that are sent before this one, because all of it would be too large for one."""

    @property
    def arguments(self) -> tuple[str | int | bytes | float, ...]:
        return (self.script, len(self.keys), *self.keys, *self.values)


def guarded(
    record: str,
    *,
    statuses: Iterable[str],
    execution: str = "",
    shard: str = "",
    commands: Iterable[Command],
    first: tuple[Call, ...] = (),
) -> Call:
    """Run the commands if the record or its shard has one of these statuses and, where one is named, this execution."""
    return Call(GUARDED, (record,), (*guard(statuses, execution, shard), *packed(commands)), first)


def guard(statuses: Iterable[str], execution: str, shard: str) -> tuple[str, str, str]:
    """What the guard of a script is told."""
    return ",".join(statuses), execution, f"/{shard}" if shard else ""


def unguarded(commands: Iterable[Command]) -> Call:
    """Run the commands, all of them or none, even where the server's memory is full."""
    return Call(UNGUARDED, (), packed(commands))


def answered(command: Command) -> Call:
    """Run one command, even where the server's memory is full, and return its answer."""
    return Call(ANSWERED, (), command)


def as_text(commands: Iterable[Command]) -> str:
    """Commands without bytes, as scripts read them."""
    return json.dumps([[*map(str, command)] for command in commands])


def packed(commands: Iterable[Command]) -> tuple[Argument, ...]:
    """Commands as the scripts read them: a JSON array of those of text, then each with bytes after its length.

    A client takes a hundred times longer to pack a hundred arguments than to pack one, and the end of a certification
    has more than a hundred.
    """
    texts, binary = [], []
    for command in commands:
        if bytes in map(type, command):
            binary += [len(command), *command]
        else:
            texts.append(command)
    return (as_text(texts), *binary)


def pairs(mapping: Mapping[str, Argument] | Mapping[int, str] | Mapping[int, str | bytes]) -> Iterable[Argument]:
    """A mapping as HSET takes it."""
    for name, value in mapping.items():
        yield str(name)
        yield value
