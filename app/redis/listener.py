"""The messages of the workers: each names a certification that has changed, and wakes the requests that wait for it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError

from app.recurring import RecurringWarning
from app.redis.changes import Changes, Watch
from store import keys

LOOK_SECONDS = 1.0
"""Seconds after which a waiting request reads the record even without a message, since messages may be lost."""
CANCEL_SECONDS = 1.0
"""Seconds after which the listener is canceled again."""
QUIET_SECONDS = 10.0
"""Seconds without a message after which the connection for messages is tested."""

logger = logging.getLogger(__name__)


class Listener:
    """Receives the changes of the certifications that this process watches."""

    def __init__(self, redis: Any) -> None:
        self.name = f"api-{secrets.token_hex(8)}"
        """The name under which this process is told the end of certifications that it has accepted."""
        self.changes = Changes()
        self._redis = redis
        self._pubsub: Any = None
        self._warning = RecurringWarning(logger)
        self._subscribed: Counter[str] = Counter()  # the requests that wait for messages of each certification

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """A context in which messages wake the watches."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            while not task.done():  # the Redis client can swallow a cancellation while it connects
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_SECONDS)

    @asynccontextmanager
    async def watching(self, certification: str, *, for_the_end: bool = False) -> AsyncIterator[Watch]:
        """A watch on a certification, whose changes are received as long as the context lasts."""
        with self.changes.watch(certification, for_the_end=for_the_end) as watch:
            self._subscribed[certification] += 1
            try:
                await self._subscribe(certification)
                yield watch
            finally:
                self._subscribed[certification] -= 1
                if not self._subscribed[certification]:
                    del self._subscribed[certification]
                    await self._unsubscribe(certification)

    @property
    def _common(self) -> tuple[str, str]:
        """The channels that are not those of one certification; each message names one."""
        return keys.CHANGED, keys.ends(self.name)

    async def _subscribe(self, certification: str) -> None:
        """Receive the changes of a certification; if that fails, those that wait look every LOOK_SECONDS."""
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.subscribe(keys.changed(certification))

    async def _unsubscribe(self, certification: str) -> None:
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.unsubscribe(keys.changed(certification))

    async def _listen(self) -> None:
        """Wake watches until cancelled; reconnects when the connection is lost."""
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as error:
                self._warning.warn(f"no messages from Redis: {error}")
            except Exception:
                logger.exception("no messages from Redis")
            await asyncio.sleep(LOOK_SECONDS)

    async def _receive(self) -> None:
        quiet = False
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(*self._common, *map(keys.changed, self._subscribed))
            self._pubsub = pubsub
            self._warning.end()
            try:
                while True:
                    message = await pubsub.get_message(timeout=QUIET_SECONDS)
                    if message is not None:
                        self.hear(message)
                    elif quiet:
                        raise TimeoutError("the connection is dead")
                    else:
                        await pubsub.ping()
                    quiet = message is None
            finally:
                self._pubsub = None

    def hear(self, message: Mapping[str, Any]) -> None:
        """Wake the watches that a message concerns."""
        channel = message["channel"].decode() if message["channel"] else ""
        certification = channel.removeprefix(f"{keys.CHANGED}:")
        if message["type"] == "subscribe" and channel not in self._common:
            self.changes.wake(certification)  # messages before the subscription were lost
        elif message["type"] == "subscribe":
            self.changes.wake_all()
        elif message["type"] == "message" and channel in self._common:
            certification, _, status = message["data"].decode().partition(" ")
            self.changes.wake(certification, status)
        elif message["type"] == "message":
            self.changes.wake(certification, message["data"].decode())
