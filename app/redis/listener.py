"""The messages of the workers: each names a certification that has changed, and wakes the requests that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError

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
        self.changes = Changes()
        self._redis = redis
        self._pubsub: Any = None

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
            await self._subscribe(certification)
            try:
                yield watch
            finally:
                if self.changes.watchers(certification) == 1:
                    await self._unsubscribe(certification)

    async def _subscribe(self, certification: str) -> None:
        """Receive the changes of a certification; if that fails, whoever waits looks every LOOK_SECONDS."""
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
                logger.warning("no messages from Redis: %s", error)
            except Exception:
                logger.exception("no messages from Redis")
            await asyncio.sleep(LOOK_SECONDS)

    async def _receive(self) -> None:
        quiet = False
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(keys.CHANGED, *map(keys.changed, self.changes.watched))
            self._pubsub = pubsub
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
        """Wake whom a message concerns."""
        channel = message["channel"].decode() if message["channel"] else ""
        certification = channel.removeprefix(f"{keys.CHANGED}:")
        if message["type"] == "subscribe" and channel != keys.CHANGED:
            self.changes.wake(certification)  # messages before the subscription were lost
        elif message["type"] == "subscribe":
            self.changes.wake_all()
        elif message["type"] == "message" and channel == keys.CHANGED:
            certification, _, status = message["data"].decode().partition(" ")
            self.changes.wake(certification, status)
        elif message["type"] == "message":
            self.changes.wake(certification, message["data"].decode())
