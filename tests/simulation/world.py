"""The world of a history: one clock, one queue of events, and processes whose threads are greenlets.

Nothing here runs at the same time as anything else, and nothing sleeps. An event is a function and the time at which it
is called. A greenlet runs until it waits for something; then the next event is called. Whatever looks random is drawn
from the seed, so the same seed gives the same history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

EPOCH = 1_790_000_000.0
"""The Unix time at which every history begins. It lies in the past, because RQ takes the times that it shows from the
real clock, and what it writes must not seem to have expired."""
TICK = 1e-6
"""The least seconds between an event and what it causes. Code that waits for the rest of a period, which rounding may
leave a hair too short, would otherwise wait for nothing for ever."""

Action = Callable[[], None]
Wake = Callable[[Any], None]


class World:
    """The clock, the events and the processes of one history."""

    def __init__(self, seed: str) -> None:
        self.now = 0.0
        """The seconds since the history began, by the clock of Redis."""
        self.chance = Random(seed)
        self.names = Random(f"names {seed}")
        """A generator for ids and keys alone, so that their number does not change anything else."""
        self.current: Process | None = None
        """The process whose code runs now."""
        self.notes: list[tuple[float, str, Any]] = []
        """What has happened: the time, the process, and a text or the commands that were executed."""
        self._hub = getcurrent()
        self._events: list[tuple[float, int, Action]] = []
        self._number = count()

    def note(self, who: str, what: Any) -> None:
        self.notes.append((self.now, who, what))

    def after(self, seconds: float, action: Action) -> None:
        """Call `action` after this many seconds; events of the same time are called in the order of their making."""
        heapq.heappush(self._events, (self.now + max(TICK, seconds), next(self._number), action))

    def run(self, until: Callable[[], bool], *, limit: float) -> bool:
        """Call one event after the other until `until()` holds; False if it does not by the time `limit`."""
        while not until():
            if not self._events or self._events[0][0] > limit:
                return False
            self.now, _, action = heapq.heappop(self._events)
            action()
        return True

    def skip(self, seconds: float) -> None:
        """Let time pass without the events that were still to come."""
        self._events.clear()
        self.now += seconds

    # --- greenlets

    def spawn(self, process: Process, target: Action) -> greenlet:
        """Begin a thread of a process."""
        thread = greenlet(target, self._hub)
        self.after(0.0, lambda: self.switch(thread, process, None))
        return thread

    def waker(self) -> Wake:
        """A function that ends the next `pause` of this greenlet with a value. Only its first call has an effect."""
        thread, process, used = getcurrent(), self.current, False

        def wake(value: Any) -> None:
            nonlocal used
            if not used:
                used = True
                self.switch(thread, process, value)

        return wake

    def pause(self) -> Any:
        """Let others run until the waker is called, and return the value that it is called with."""
        process = self.current
        require_alive(process)
        value = self._hub.switch()
        require_alive(process)
        return value

    def sleep(self, seconds: float) -> None:
        wake = self.waker()
        self.after(seconds, lambda: wake(None))
        self.pause()

    def switch(self, thread: greenlet, process: Process | None, value: Any) -> None:
        """Resume a greenlet, once its process is no longer stopped; never, if it has ended."""
        if process is not None and process.stopped_until > self.now:
            self.after(process.stopped_until - self.now, lambda: self.switch(thread, process, value))
        elif (process is None or process.alive) and not thread.dead:
            self.current = process
            thread.switch(value)
            self.current = None

    def end(self, thread: greenlet, process: Process) -> None:
        """Unwind a greenlet of a process that has ended."""
        if thread and not thread.dead:
            self.current = process
            thread.throw(GreenletExit)
            self.current = None


class Process:
    """A process on its own host, which may be killed, stopped, or cut off from Redis."""

    def __init__(self, world: World, name: str, *, skew: float = 0.0) -> None:
        self.world, self.name, self.skew = world, name, skew
        """The world, the name, and the seconds by which its clock is ahead of that of Redis."""
        self.alive = True
        self.stopped_until = self.cut_until = 0.0
        self.shown = ""
        """The name of its connection to Redis."""
        self.on_signal: Callable[[int, object], None] | None = None
        self._threads: list[greenlet] = []

    def start(self, target: Action) -> greenlet:
        """Begin a thread; an exception that leaves it ends the process."""

        def run(_: object = None) -> None:
            try:
                target()
            except GreenletExit:
                pass
            except Exception as error:
                self.world.note(self.name, f"ends: {type(error).__name__}: {error}")
                self.exit()

        thread = self.world.spawn(self, run)
        self._threads.append(thread)
        return thread

    def exit(self) -> None:
        """End the process from within."""
        self.alive = False
        self.world.after(0.0, self._unwind)

    def kill(self) -> None:
        """End the process at once, from outside: no line of its code runs any more, except to unwind its threads."""
        self.alive = False
        self._unwind()

    def _unwind(self) -> None:
        threads, self._threads = self._threads, []
        for thread in threads:
            self.world.end(thread, self)


def require_alive(process: Process | None) -> None:
    if process is not None and not process.alive:
        raise GreenletExit
