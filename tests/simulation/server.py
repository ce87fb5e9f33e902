"""The real Valkey of the histories. Each history has its own database, and many of them share a round trip."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import floor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hiredis
import redis
from greenlet import getcurrent, greenlet
from redis._parsers import BaseParser

from app.local.embedded import EmbeddedServer

Arguments = tuple[Any, ...]
Message = tuple[str, bytes]
"""A channel, and what was published on it."""
DATABASES = 16
"""The most histories that are under way at a time: Valkey has as many databases by default."""
NOTHING = object()
"""What the parser returns while a reply is incomplete."""
STRETCH = 1_000_000
"""The factor by which times to live are longer in the server, so that real seconds do not count."""
AGE = """#!lua flags=allow-oom
-- ARGV: milliseconds
local by = tonumber(ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then
    if left <= by then redis.call('UNLINK', key)
    else redis.call('PEXPIRE', key, string.format('%.0f', left - by)) end
  end
end
"""
"""A script that lets time pass for all keys that expire."""
TIMES = re.compile(r'\["EXPIRE", ("[^"]*"), "(\d+)"\]|"EX", "(\d+)"')
"""The times to live in the JSON of commands: those of EXPIRE and of SET."""


class Server:
    """A Valkey, and the histories that are under way in it, each in a greenlet."""

    def __init__(self, url: str) -> None:
        # redis-py opens the connection, with its password and protocol. To talk, it would take longer than the server.
        self._connection: Any = redis.Redis.from_url(url).connection_pool.get_connection()
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error, notEnoughData=NOTHING)
        self._scripts: set[bytes] = set()
        self._waiting: list[tuple[greenlet, int, Sequence[Arguments]]] = []
        self.executed = 0
        """The number of commands that were executed."""
        self._exchange([(0, [("CONFIG", "SET", "appendonly", "no")])])
        self._connection.send_command("PSUBSCRIBE", "*")  # the response to this is a message, not a reply

    def each(self, histories: Iterator[Callable[[Database], None]], *, at_a_time: int = DATABASES) -> None:
        """Run histories to their ends, some at a time."""
        root = getcurrent()

        def run(number: int) -> None:
            for history in histories:
                history(Database(self, number))

        ready: list[tuple[greenlet, Any]] = [(greenlet(run, root), number) for number in range(at_a_time)]
        while ready:
            self._waiting = []
            for history, value in ready:
                history.switch(value)
            waiting = self._waiting
            answers = self._exchange([(number, commands) for _, number, commands in waiting]) if waiting else []
            ready = [(history, answer) for (history, _, _), answer in zip(waiting, answers, strict=True)]

    def execute(self, number: int, commands: Sequence[Arguments]) -> tuple[list[Any], list[Message]]:
        """The replies, errors included, and what was published; other histories go on meanwhile."""
        current = getcurrent()
        if current.parent is None:
            return self._exchange([(number, commands)])[0]
        self._waiting.append((current, number, commands))
        return current.parent.switch()  # type: ignore[no-any-return]

    def _exchange(self, lists: Sequence[tuple[int, Sequence[Arguments]]]) -> list[tuple[list[Any], list[Message]]]:
        packed = []
        for number, commands in lists:
            self.executed += len(commands)
            packed.append(_selecting(number))
            packed += map(self._packed, commands)
            packed.append(PING)  # whatever the commands before it publish comes before its reply
        self._connection._sock.sendall(b"".join(packed))
        return [self._replies(len(commands)) for _, commands in lists]

    def _packed(self, command: Arguments) -> bytes:
        if command[0] == "EVAL":
            digest = _digest(command[1])
            if digest in self._scripts:
                return hiredis.pack_command(("EVALSHA", digest, *command[2:]))
            self._scripts.add(digest)
        return hiredis.pack_command(command)

    def _replies(self, number: int) -> tuple[list[Any], list[Message]]:
        replies: list[Any] = []
        messages: list[Message] = []
        while len(replies) < number + 2:
            reply = self._reader.gets()
            if reply is NOTHING:
                self._reader.feed(self._connection._sock.recv(1 << 16))
            elif not isinstance(reply, hiredis.PushNotification):
                replies.append(reply)
            elif reply[0] == b"pmessage":
                messages.append((reply[2].decode(), reply[3]))
        return replies[1:-1], messages


class Database:
    """The database of one history, in which time passes by the simulated clock."""

    def __init__(self, server: Server, number: int) -> None:
        self._server, self._number, self._aged, self._ahead = server, number, 0, 0.0
        self.messages: list[Message] = []
        """Messages that were published and not received yet."""
        self.resumed: Callable[[], None] = lambda: None
        """A function that is called when this history goes on after others have run."""
        self.execute([("FLUSHDB",)])

    def pass_time(self, now: float) -> None:
        """Let keys expire whose time has come at `now`, in seconds since the history began; at most once a second."""
        if (seconds := floor(now) - self._aged) > 0:
            self._aged += seconds
            self.execute([("EVAL", AGE, 0, 1000 * seconds * STRETCH)])
        self._ahead = now - self._aged

    def execute(self, commands: Sequence[Arguments]) -> list[Any]:
        """The replies, errors included."""
        replies, messages = self._server.execute(self._number, [self._stretched(each) for each in commands])
        self.resumed()
        self.messages += messages
        return replies

    def _stretched(self, command: Arguments) -> Arguments:
        """A command with longer times to live."""
        if command[0] != "EVAL":
            return command
        parts = list(command)
        for place, part in enumerate(parts):
            if part == "EX":
                parts[place], parts[place + 1] = "PX", self._milliseconds(parts[place + 1])
            elif isinstance(part, str) and part.startswith("[["):
                parts[place] = TIMES.sub(self._replaced, part)
        return tuple(parts)

    def _replaced(self, found: re.Match[str]) -> str:
        key, expire, ex = found.groups()
        if key:
            return f'["PEXPIRE", {key}, "{self._milliseconds(expire)}"]'
        return f'"PX", "{self._milliseconds(ex)}"'

    def _milliseconds(self, seconds: str | int) -> int:
        # The next ageing takes a whole second, of which a part has passed already.
        return int((int(seconds) + self._ahead) * 1000 * STRETCH)


PING = hiredis.pack_command(("PING",))


@cache
def _selecting(number: int) -> bytes:
    return hiredis.pack_command(("SELECT", number))


@cache
def _digest(script: str) -> bytes:
    return hashlib.sha1(script.encode()).hexdigest().encode()


@contextmanager
def private_server() -> Iterator[Server]:
    """A server that ends with the context."""
    with TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        yield Server(server.url)
