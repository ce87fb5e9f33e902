"""The API's look at its Redis: once before it serves, and then whenever somebody asks whether it is ready."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError, ResponseError

from app.redis.client import connected
from smoothcert.published import RedisCheck
from store.address import RedisAddress
from store.commands import Command
from store.inspection import ServerReport, UnusableServerError, absence, inspection, refusal, without_tls
from store.plaintext import answers_plainly

INSPECT_SECONDS = 10.0
"""Seconds for which a report is reused; another server may take the place of the one that was inspected."""

logger = logging.getLogger(__name__)


class Inspector:
    """Inspects the server, and logs every warning once."""

    def __init__(self, *, replicas: int = 0) -> None:
        self._replicas = replicas
        self._checks: tuple[RedisCheck, ...] = ()
        self._checked_at = -math.inf
        self._warned: set[str] = set()

    async def require_usable(self, address: RedisAddress, *, strict: bool) -> None:
        """UnusableServerError if the service cannot work with this server, or must not because it is strict.

        A server that is away does not raise it: the API answers 503 until the server is back. Only a strict API does
        not start then, because nothing is known of the server.
        """
        client = connected(address)
        try:
            report = await self._inspect(client)
        except (RedisError, OSError) as error:
            if reason := refusal(error, address.place):
                raise UnusableServerError(reason) from error
            if await asyncio.to_thread(answers_plainly, address):
                raise UnusableServerError(without_tls(address.place)) from error
            if strict:
                detail = f"Redis at {address.place} does not answer: {absence(error, tls=address.tls)}"
                raise UnusableServerError(f"SMOOTHCERT_STRICT is set, and {detail}") from error
            logger.warning("Redis at %s does not answer yet: %s", address.place, absence(error, tls=address.tls))
            return
        finally:
            await client.aclose()
        report.require_usable(strict=strict)

    async def checks(self, redis: Any) -> tuple[RedisCheck, ...]:
        """What was found of the server of this client, not older than INSPECT_SECONDS."""
        if time.monotonic() - self._checked_at > INSPECT_SECONDS:
            report = await self._inspect(redis)
            self._checks, self._checked_at = report.checks, time.monotonic()
        return self._checks

    async def _inspect(self, redis: Any) -> ServerReport:
        inspect = inspection(replicas=self._replicas)
        commands = next(inspect)
        while True:
            answers = await _ask(redis, commands)
            try:
                commands = inspect.send(answers)
            except StopIteration as end:
                report: ServerReport = end.value
                self._warn(report)
                return report

    def _warn(self, report: ServerReport) -> None:
        for check in report.warnings:
            if check.name not in self._warned:
                logger.warning("Redis: %s", check.detail)
        self._warned = {check.name for check in report.warnings}


async def _ask(redis: Any, commands: Sequence[Command]) -> list[Any]:
    """The answers, in which an error is an exception, unless the server is away."""
    async with redis.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, ResponseError):
            raise answer
    return answers
