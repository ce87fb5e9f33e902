"""A worker's connection to Redis: sends the calls and commands that `store` makes, in pipelines."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from store import inspection, keys, shards
from store.address import RedisAddress
from store.commands import Call, Command, answered, unguarded
from store.inspection import ServerReport, UnusableServerError
from store.plaintext import answers_plainly
from store.record import Record

logger = logging.getLogger(__name__)

REFUSALS = (
    "BUSY",
    "CLUSTERDOWN",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
)
"""The codes with which a server says that it cannot do its work now: it is full, loading, busy with a script, without
its replicas, or about to be replaced by another one. None of them says that anything is wrong with the command."""
INSPECT_S = 2.0
"""Seconds within which a server must answer while it is inspected. A TLS handshake with a server that does not speak
TLS takes all of them, and the operator waits for the sentence."""
RETRY_S = 0.2
"""The seconds between two tries to reach Redis: short against a heartbeat, long against a round trip."""
REMIND_S = 10.0
"""The seconds after which the log says again that Redis does not answer."""

_REFUSED = re.compile(rf"(?:^|of pipeline caused error: )(?:{'|'.join(REFUSALS)})\b")
Answer = TypeVar("Answer")


class RefusedError(redis.exceptions.RedisError):
    """The server answers, but it cannot do its work now."""


AWAY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, RefusedError)
"""The errors of a server that is away, which is worth another try."""


class RedisConnection:
    """A connection to Redis that any thread may use."""

    def __init__(self, where: RedisAddress | str) -> None:
        self._address = RedisAddress.of(where)
        self.client = self._client(answer_s=20)

    def _client(self, *, answer_s: float) -> Any:
        """A client that gives up at once, so that each caller decides how to wait for Redis."""
        return self._address.client(retry=Retry(NoBackoff(), 0), socket_connect_timeout=2, socket_timeout=answer_s)

    def require_usable(self, *, strict: bool) -> None:
        """Wait for the server and inspect it. UnusableServerError if the service cannot or must not work with it."""
        report = until_answered(self._inspect)
        for check in report.warnings:
            logger.warning("Redis: %s", check.detail)
        report.require_usable(strict=strict)

    def refuse_unusable(self, *, strict: bool) -> None:
        """Inspect the server once, and refuse it as `require_usable` does; no effect if it is away for the moment."""
        try:
            with refused_is_away():
                report = self._inspect()
        except AWAY as error:
            logger.warning("Redis does not answer: %s", error)
            return
        report.require_usable(strict=strict)

    def _inspect(self) -> ServerReport:
        try:
            with self._client(answer_s=INSPECT_S) as client:
                return inspection.run(inspection.inspection(), partial(_answers, client))
        except redis.exceptions.RedisError as error:
            if reason := inspection.refusal(error, self._address.place):
                raise UnusableServerError(reason) from error
            if isinstance(error, AWAY):
                if answers_plainly(self._address):
                    raise UnusableServerError(inspection.without_tls(self._address.place)) from error
                raise type(error)(inspection.absence(error, tls=self._address.tls)) from error
            raise

    def run(self, commands: Iterable[Command]) -> list[Any]:
        """The answers to commands, in one round trip."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            with refused_is_away():
                answers: list[Any] = pipeline.execute()
        except RefusedError:
            # The address may belong to another server by now, and a connection would stay with the old one.
            self.client.connection_pool.disconnect(inuse_connections=False)
            raise
        return answers

    def call(self, calls: Sequence[Call]) -> list[tuple[bool, str]]:
        """Whether each guarded call was carried out, and the status that it saw; in one round trip."""
        sent = [part for call in calls for part in (*call.first, call)]
        answers = iter(self.run(("EVAL", *part.arguments) for part in sent) if sent else [])
        last = [[next(answers) for _ in (*call.first, call)][-1] for call in calls]
        return [(bool(written), status.decode()) for written, status in last]

    def write(self, commands: Iterable[Command]) -> None:
        """Run commands, all of them or none, even where the server's memory is full."""
        if commands := list(commands):
            self.call([unguarded(commands)])

    def ask(self, command: Command) -> Any:
        """The answer to one command that may write, even where the server's memory is full."""
        return self.eval(answered(command))

    def eval(self, call: Call) -> Any:
        """The answer of a script."""
        return self.run([("EVAL", *call.arguments)])[0]

    def await_bell(self, pool: str, worker: str, seconds: float) -> None:
        """Wait until something may wait in a pool or for this worker, but no longer than `seconds`."""
        with refused_is_away():
            self.client.blpop([keys.summons(worker), keys.bell(pool)], seconds)

    def clock_difference(self, now: float) -> float:
        """The seconds by which the clock of Redis is ahead of `now`."""
        seconds, microseconds = self.client.time()
        return float(seconds + microseconds / 1e6 - now)

    def record(self, name: str) -> Record | None:
        """The record of a certification or a shard; None if it does not exist or cannot be read."""
        certification, _ = shards.parse_name(name)
        return Record.salvage(name, self.client.hgetall(keys.record(certification)))


def _answers(client: Any, commands: Sequence[Command]) -> list[Any]:
    """The answers to commands, in which an error is an exception, unless the server is away."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, AWAY):
            raise answer
    return answers


@contextmanager
def refused_is_away() -> Iterator[None]:
    """Raise RefusedError, which is in AWAY, where the server says that it cannot do its work now."""
    try:
        yield
    except redis.exceptions.ResponseError as error:
        if error.status_code in REFUSALS or _REFUSED.search(str(error)):
            raise RefusedError(str(error)) from error
        raise


def until_answered(ask: Callable[[], Answer], *, unless: Callable[[], bool] = lambda: False) -> Answer:
    """Call `ask` again and again until Redis answers, `unless` that is not wanted any more; then the error is raised.

    The log says why Redis does not answer, but not with every try.
    """
    logged, logged_at = "", 0.0
    while True:
        try:
            with refused_is_away():
                return ask()
        except AWAY as error:
            if unless():
                raise
            if str(error) != logged or time.monotonic() - logged_at >= REMIND_S:
                logged, logged_at = str(error), time.monotonic()
                logger.warning("Redis does not answer: %s", error)
            time.sleep(RETRY_S)
