"""Simulated `time`, `threading`, `secrets`, `uuid`, `os` and `signal` for the modules of the service.

The service is not written for the simulator: its modules say `time.time()` and `threading.Thread(...)`. On the stage
those names mean the clock and the greenlets of the world in which the code runs. Modules of others keep the real ones.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import redis.utils
import rq.executions
import rq.job
from greenlet import GreenletExit

from smoothcert.engine.engine import Engine
from tests.simulation.world import EPOCH, Process, World

OURS = ("app", "smoothcert", "store", "workers")


class Stage:
    """The place of all histories. Several are under way at the same time; `world` is that of the running one."""

    world: World

    @property
    def process(self) -> Process:
        assert self.world.current is not None
        return self.world.current


STAGE = Stage()


class SimulatedTime:
    def time(self) -> float:
        process = STAGE.world.current
        return EPOCH + STAGE.world.now + (process.skew if process else 0.0)

    def monotonic(self) -> float:
        return STAGE.world.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        STAGE.world.sleep(seconds)


class SimulatedCondition:
    """Only one greenlet runs at a time and none is interrupted, so there is nothing to lock."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[Any], None]] = []

    def __enter__(self) -> SimulatedCondition:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        wake = STAGE.world.waker()
        self._waiting.append(wake)
        if timeout is not None:
            STAGE.world.after(timeout, lambda: wake(False))
        return bool(STAGE.world.pause())

    def wait_for(self, true: Callable[[], bool], timeout: float | None = None) -> bool:
        end = None if timeout is None else STAGE.world.now + timeout
        while not true():
            if end is not None and STAGE.world.now >= end:
                return False
            self.wait(None if end is None else end - STAGE.world.now)
        return True

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            STAGE.world.after(0.0, lambda wake=wake: wake(True))

    notify = notify_all  # a waiter that wakes without reason looks again


class SimulatedEvent(SimulatedCondition):
    def __init__(self) -> None:
        super().__init__()
        self._true = False

    def is_set(self) -> bool:
        return self._true

    def set(self) -> None:
        self._true = True
        self.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._true:
            super().wait(timeout)
        return self._true


class SimulatedSemaphore(SimulatedCondition):
    def __init__(self, value: int = 1) -> None:
        super().__init__()
        self._value = value

    def __enter__(self) -> SimulatedSemaphore:
        self.wait_for(lambda: self._value > 0)
        self._value -= 1
        return self

    def __exit__(self, *_: object) -> None:
        self._value += 1
        self.notify_all()


class SimulatedThread:
    def __init__(
        self, target: Callable[..., None], args: tuple[Any, ...] = (), name: str = "", daemon: bool = False
    ) -> None:
        self._target, self._args = target, args
        self._ended = SimulatedEvent()

    def start(self) -> None:
        STAGE.process.start(self._run)

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._ended.set()

    def join(self) -> None:
        self._ended.wait()


def _exit(code: int) -> None:
    if STAGE.process.alive:  # otherwise its threads are being unwound
        STAGE.world.note(STAGE.process.name, f"ends itself with exit code {code}")
        STAGE.process.exit()
    raise GreenletExit


def _on_signal(_: int, handler: Callable[[int, object], None]) -> None:
    STAGE.process.on_signal = handler


def _token(size: int = 16) -> str:
    return STAGE.world.names.randbytes(size).hex()


def _uuid4() -> uuid.UUID:
    return uuid.UUID(int=STAGE.world.names.getrandbits(128), version=4)


SIMULATED: dict[ModuleType, Any] = {
    time: SimulatedTime(),
    threading: SimpleNamespace(
        Condition=SimulatedCondition,
        Event=SimulatedEvent,
        Lock=threading.Lock,
        RLock=threading.RLock,
        Semaphore=SimulatedSemaphore,
        Thread=SimulatedThread,
        current_thread=lambda: None,
    ),
    secrets: SimpleNamespace(
        compare_digest=hmac.compare_digest,
        token_hex=_token,
        token_urlsafe=_token,
        token_bytes=lambda size: STAGE.world.names.randbytes(size),
    ),
    uuid: SimpleNamespace(uuid4=_uuid4),
}
"""The simulated stand-in for each of these modules."""


@contextlib.contextmanager
def staged(engine: type[Engine]) -> Iterator[None]:
    """A context in which the service's modules see the simulated ones, and workers this engine.

    The world is that of `STAGE`.
    """
    import workers.engines
    import workers.worker

    replaced: list[tuple[Any, str, Any]] = []

    def put(module: Any, name: str, value: Any) -> None:
        replaced.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    for full_name, module in list(sys.modules.items()):
        if full_name.partition(".")[0] in OURS:
            for name, value in list(vars(module).items()):
                if isinstance(value, ModuleType) and value in SIMULATED:
                    put(module, name, SIMULATED[value])
    put(workers.engines, "Engine", engine)
    put(workers.worker, "traceback", SimpleNamespace(format_exc=str))  # why dead threads end is of no interest
    put(workers.worker, "os", SimpleNamespace(_exit=_exit, environ=os.environ))
    put(workers.worker, "signal", SimpleNamespace(signal=_on_signal, SIGTERM=signal.SIGTERM, SIGINT=signal.SIGINT))
    put(redis.utils, "get_lib_version", cache(redis.utils.get_lib_version))  # it reads a file for every client
    for module in (rq.executions, rq.job):
        put(module, "uuid4", _uuid4)
    try:
        yield
    finally:
        for module, name, value in reversed(replaced):
            setattr(module, name, value)
