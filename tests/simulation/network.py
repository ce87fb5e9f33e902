"""The network between the processes and Redis: what happens to each list of commands that a process sends.

A list may arrive late or never, and so may its replies. A partition holds both back until it ends. A process that has
waited too long closes its connection and perhaps sends the same again, while the first list may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from random import Random
from typing import Any

from redis.exceptions import ConnectionError as DisconnectedError
from redis.exceptions import TimeoutError as TooLateError

from store import keys
from tests.simulation.server import Arguments, Database
from tests.simulation.world import EPOCH, Process, Wake, World

USUAL_S = 0.002
"""The mean seconds that a list of commands or replies is under way."""
LONGEST_S = 3.0
"""The most seconds that a slow one is under way."""
BELL, SUMMONS = keys.bell(""), keys.summons("")
"""Texts in commands that may wake a process which waits for an entry of a list."""
INFO = b"used_memory:1\r\nmaxmemory:0\r\n"
"""The reply to INFO; the server would describe the machine of the simulator."""


@dataclass(frozen=True)
class Weather:
    """The probability of each kind of trouble for a list of commands."""

    lost: float = 0.0
    """The list never arrives, and the connection is closed."""
    unanswered: float = 0.0
    """The list is executed, and the connection is closed before the replies come."""
    slow: float = 0.0
    """The list takes up to LONGEST_S, on its way there or back."""
    late: float = 0.0
    """The list is executed only after the process has given up waiting."""

    @classmethod
    def draw(cls, chance: Random) -> Weather:
        """Draw some kinds of trouble, so that many histories together see all of them, alone and combined."""
        return cls(**{each.name: chance.choice((0.0, 0.0, 0.01, 0.05)) for each in fields(cls)})


CALM = Weather()


class Network:
    """Carries commands from processes to the server, and replies back."""

    def __init__(self, world: World, database: Database) -> None:
        self.world, self.database, self.weather = world, database, CALM
        self.watchers: list[Callable[[Process, Arguments, Any], None]] = []
        """Functions that are called with each executed command and its reply."""
        self._subscribers: list[tuple[str, Process, Callable[[dict[str, Any]], None]]] = []
        self._blocked: list[_Blocked] = []

    def send(self, process: Process, commands: Sequence[Arguments], timeout: float, done: Wake) -> None:
        """Call `done` with the replies, or with the error that the process sees, and not later than `timeout`."""
        world, chance, weather = self.world, self.world.chance, self.weather
        there, back = (chance.expovariate(1 / USUAL_S) for _ in range(2))
        if weather.slow and chance.random() < weather.slow:
            if chance.random() < 0.5:
                there += chance.uniform(0, LONGEST_S)
            else:
                back += chance.uniform(0, LONGEST_S)
        if weather.lost and chance.random() < weather.lost:
            world.after(there + back, lambda: done(DisconnectedError("the connection was lost")))
            return
        if weather.late and chance.random() < weather.late:
            there = timeout + chance.uniform(0, LONGEST_S)
        answered = not (weather.unanswered and chance.random() < weather.unanswered)
        message = _Message(process, commands, world.now + timeout, back if answered else None, done)
        if there >= timeout:
            world.after(timeout, message.give_up)
        world.after(there, partial(self._arrive, message))

    def _arrive(self, message: _Message) -> None:
        """Execute the commands, as soon as no partition holds them back."""
        held = message.process.cut_until - self.world.now
        if held > 0:
            self.world.after(message.deadline - self.world.now, message.give_up)
            self.world.after(held + USUAL_S, partial(self._arrive, message))
        elif message.given_up and self.world.chance.random() < 0.5:
            return  # the process closed the connection before all of it was on its way
        else:
            self._execute(message)

    def _execute(self, message: _Message) -> None:
        name, *arguments = message.commands[0]
        if name == "BLPOP":
            blocked = _Blocked(message, arguments[:-1])
            self._blocked.append(blocked)
            self._serve_blocked()
            if not blocked.served:
                self.world.after(float(arguments[-1]), lambda: self._unblock(blocked, None))
            return
        self._reply(message, self.execute(message.process, message.commands))

    def execute(self, process: Process, commands: Sequence[Arguments]) -> list[Any]:
        """The replies of the server, at once."""
        self.database.pass_time(self.world.now)
        self.world.note(process.name, commands)
        if (simulated := self._simulated(process, *commands[0])) is not None:
            return [simulated]
        replies = self.database.execute(commands)
        for command, reply in zip(commands, replies, strict=True):
            for watch in self.watchers:
                watch(process, command, reply)
        self._publish()
        parts = (part for each in commands for part in each if isinstance(part, str))
        if self._blocked and any(BELL in part or SUMMONS in part for part in parts):
            self._serve_blocked()
        return replies

    def _simulated(self, process: Process, name: Any, *arguments: Any) -> Any:
        """The reply to a command about the clock, the connection or the machine, which the server cannot know."""
        match name:
            case "TIME":
                seconds = EPOCH + self.world.now
                return [int(seconds), int(seconds % 1 * 1e6)]
            case "CLIENT SETNAME":
                process.shown = arguments[0]
                return b"OK"
            case "CLIENT LIST":
                return f"addr=10.0.0.3:1 name={process.shown}\n".encode()
            case "INFO":
                return INFO
        return None

    def _reply(self, message: _Message, replies: list[Any]) -> None:
        if message.back is None:
            self.world.after(USUAL_S, lambda: message.done(DisconnectedError("the connection was lost")))
            return
        at = max(self.world.now, message.process.cut_until) + message.back
        if at > message.deadline:
            self.world.after(message.deadline - self.world.now, message.give_up)
        else:
            self.world.after(at - self.world.now, lambda: message.done(replies))

    # --- blocking commands and messages

    def subscribe(self, beginning: str, process: Process, receive: Callable[[dict[str, Any]], None]) -> None:
        """Let a process receive what is published on channels whose names begin with this."""
        self._subscribers.append((beginning, process, receive))

    def _serve_blocked(self) -> None:
        for blocked in list(self._blocked):
            if not blocked.message.process.alive:
                blocked.served = True
                self._blocked.remove(blocked)
                continue
            popped = self.database.execute([("LPOP", key) for key in blocked.keys])
            for key, entry in zip(blocked.keys, popped, strict=True):
                if entry is not None:
                    self._unblock(blocked, [key.encode(), entry])

    def _unblock(self, blocked: _Blocked, reply: Any) -> None:
        if not blocked.served:
            blocked.served = True
            self._blocked.remove(blocked)
            self._reply(blocked.message, [reply])

    def _publish(self) -> None:
        """Pass on what was published; a message may be lost at any time, and no process is told."""
        messages, self.database.messages = self.database.messages, []
        for channel, text in messages:
            for beginning, process, receive in self._subscribers:
                lost = self.weather is not CALM and self.world.chance.random() < 0.2
                if channel.startswith(beginning) and not lost and process.cut_until <= self.world.now:
                    message = {"type": "message", "channel": channel.encode(), "data": text}
                    self.world.after(USUAL_S, partial(_receive, self.world, process, receive, message))


@dataclass(eq=False)
class _Message:
    """A list of commands under way."""

    process: Process
    commands: Sequence[Arguments]
    deadline: float
    """The time at which the process gives up waiting."""
    back: float | None
    """The seconds that the replies take; None if the connection is closed before they come."""
    done: Wake
    given_up: bool = False

    def give_up(self) -> None:
        self.given_up = True
        self.done(TooLateError("no answer in time"))


@dataclass(eq=False)
class _Blocked:
    """A process that waits for an entry of one of some lists."""

    message: _Message
    keys: Sequence[str]
    served: bool = False


def _receive(
    world: World, process: Process, receive: Callable[[dict[str, Any]], None], message: dict[str, Any]
) -> None:
    if process.alive:
        world.current = process
        receive(message)
        world.current = None
