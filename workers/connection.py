"""A worker's connection to Redis: sends the calls and commands that `store` makes, in pipelines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from store import keys
from store.commands import TAKE, Call, Command
from store.record import Record

logger = logging.getLogger(__name__)

AWAY = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
)
"""The errors of a server that is away or full, which is worth another try."""
FULL = ("OOM ", "MISCONF ")
"""The codes with which the server says that its memory or its disk is full, also from within a script."""
RETRY_S = 0.2
"""The seconds between two tries to reach Redis: short against a heartbeat, long against a round trip."""

Answer = TypeVar("Answer")


class RedisConnection:
    """A connection to Redis that any thread may use."""

    def __init__(self, url: str) -> None:
        # It gives up at once, so that each caller decides how to wait for Redis.
        self.client: Any = redis.Redis.from_url(
            url, retry=Retry(NoBackoff(), 0), socket_connect_timeout=2, socket_timeout=20
        )

    def run(self, commands: Iterable[Command]) -> list[Any]:
        """The answers to commands, in one round trip."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        with full_is_away():
            answers: list[Any] = pipeline.execute()
        return answers

    def call(self, calls: Sequence[Call]) -> list[tuple[bool, str]]:
        """Whether each guarded call was carried out, and the status that it saw; in one round trip."""
        answers = self.run(("EVAL", *call.arguments) for call in calls) if calls else []
        return [(bool(written), status.decode()) for written, status in answers]

    def take(
        self, waiting: str, taken: str, most: int, *, and_run: Sequence[Command] = ()
    ) -> tuple[list[str], list[Any]]:
        """Take up to `most` ids that wait; also returns the answers to other commands, from the same round trip."""
        moved, *answers = self.run([("EVAL", TAKE, 2, waiting, taken, most), *and_run])
        return [entry.decode() for entry in moved], answers

    def await_one(self, waiting: str, taken: str, seconds: int) -> str | None:
        """Take the first id that waits; None if none comes within `seconds`."""
        with full_is_away():
            moved = self.client.blmove(waiting, taken, seconds, "LEFT", "RIGHT")
        return None if moved is None else moved.decode()

    def clock_difference(self, now: float) -> float:
        """The seconds by which the clock of Redis is ahead of `now`."""
        seconds, microseconds = self.client.time()
        return float(seconds + microseconds / 1e6 - now)

    def record(self, certification: str) -> Record | None:
        """The record of a certification; None if it does not exist or cannot be read."""
        return Record.salvage(certification, self.client.hgetall(keys.record(certification)))


@contextmanager
def full_is_away() -> Iterator[None]:
    """Raise OutOfMemoryError, which is in AWAY, where the server refuses to write because memory or disk is full."""
    try:
        yield
    except redis.exceptions.ResponseError as error:
        if any(code in str(error) for code in FULL):
            raise redis.exceptions.OutOfMemoryError(str(error)) from error
        raise


def until_answered(ask: Callable[[], Answer]) -> Answer:
    """Call `ask` again and again until Redis answers."""
    while True:
        try:
            with full_is_away():
                return ask()
        except AWAY as error:
            logger.warning("Redis is away: %s", error)
            time.sleep(RETRY_S)
