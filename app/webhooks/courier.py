"""The courier: delivers webhooks from Redis, in the background of an API process.

The API delivers and not the workers: they run networks of other people, and need no way out of their own network. All
API processes share the deliveries; one that dies while it sends is replaced by another after a minute.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from app.background import Background
from app.http.errors import UnavailableError
from app.redis.queue import Queue
from app.webhooks.post import Postman
from app.webhooks.receivers import ReceiverError, Receivers
from app.webhooks.signature import signed
from smoothcert import __version__
from store import deliveries
from store.commands import Command, unguarded
from store.deliveries import Delivery

LOOK_S = 0.5
"""Seconds between two looks at an empty list of deliveries."""
AT_A_TIME = 32
"""The number of deliveries under way at a time."""
SHARE = 8
"""The most deliveries of one owner under way: a receiver that does not answer holds up its owner alone."""
JITTER = 0.2
"""The share of a pause by which it varies, so that what failed together is not tried again together."""

logger = logging.getLogger(__name__)


class Courier:
    """Sends what is due, several at a time."""

    def __init__(
        self, queue: Queue, receivers: Receivers, secret: bytes, pauses: Sequence[float], postman: Postman | None = None
    ) -> None:
        self._queue, self._receivers, self._secret, self._pauses = queue, receivers, secret, pauses
        self._postman = postman or Postman(receivers)
        self._background = Background[Delivery]()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A context in which deliveries are sent. What is under way at its end is sent again by another process."""
        try:
            async with self._background.running(self._run()):
                yield
        finally:
            await self._postman.close()

    async def _run(self) -> None:
        while not self._background.closed:
            try:
                found = await self._claim()
            except UnavailableError:
                found = []
            except Exception:  # the API goes on, and so does the courier
                logger.exception("deliveries cannot be claimed")
                found = []
            for delivery in found:
                self._background.start(delivery, self._deliver(delivery))
            if not found:
                await self._background.pause(LOOK_S)

    async def _claim(self) -> list[Delivery]:
        under_way = self._background.under_way
        free = AT_A_TIME - len(under_way)
        if not free:
            return []
        held = Counter(each.owner for each in under_way)
        return deliveries.claimed(await self._queue.ask(deliveries.claim(most=free, share=SHARE, held=held)))

    async def _deliver(self, delivery: Delivery) -> None:
        commands = await self._attempt(delivery)
        try:
            await self._queue.ask(unguarded(commands))
        except UnavailableError:
            logger.warning("the outcome of a delivery is not saved, it is sent again", extra=_extra(delivery))

    async def _attempt(self, delivery: Delivery) -> list[Command]:
        """Send a delivery; what this changes in Redis."""
        try:
            receiver = self._receivers.require(delivery.url)
        except ReceiverError as error:  # the settings have changed since the request was accepted
            return self._give_up(delivery, str(error))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"smoothcert/{__version__}",
            **signed(self._secret, delivery),
        }
        try:
            status = await self._postman.post(receiver, delivery.body.encode(), headers)
        except Exception as error:  # of the network, of TLS or of the receiver's HTTP: all of them may pass
            return self._again(delivery, f"{type(error).__name__}: {error}")
        if 200 <= status < 300:
            logger.info("webhook delivered", extra=_extra(delivery))
            return deliveries.done(delivery, "delivered")
        if status == HTTPStatus.GONE:
            return self._give_up(delivery, "the receiver is gone (410)")
        return self._again(delivery, f"status {status}")

    def _again(self, delivery: Delivery, reason: str) -> list[Command]:
        if delivery.attempts > len(self._pauses):
            return self._give_up(delivery, reason)
        pause = self._pauses[delivery.attempts - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        logger.warning("webhook not delivered, tried again in %.1f s: %s", pause, reason, extra=_extra(delivery))
        return deliveries.again(delivery, at=time.time() + pause)

    def _give_up(self, delivery: Delivery, reason: str) -> list[Command]:
        logger.error("webhook given up: %s", reason, extra=_extra(delivery))
        return deliveries.done(delivery, "given-up")


def _extra(delivery: Delivery) -> dict[str, object]:
    """Fields of a log line. The address is not one of them: it may contain a token."""
    return {"certification_id": delivery.certification, "owner": delivery.owner, "attempt": delivery.attempts}
