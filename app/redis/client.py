"""The API's client of Redis: how long it waits, how many connections it has, and what its failures become."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as DisconnectedError
from redis.exceptions import ReadOnlyError, RedisError

from app.http.errors import UnavailableError
from store.address import RedisAddress
from store.commands import Call

CONNECT_SECONDS = 1.0
"""Seconds within which Redis must accept a connection."""
ANSWER_SECONDS = 5.0
"""Seconds within which Redis must answer. It answers after a write to disk, which may take seconds on a shared one."""
CONNECTIONS = 64
"""The number of connections to Redis; further commands wait for one."""

logger = logging.getLogger(__name__)


def connected(address: RedisAddress) -> Any:
    """A client, which connects when it is first used."""
    return address.async_client(**options())


def options() -> dict[str, Any]:
    """The options of the client's connections.

    A command is sent a second time, by a new connection, if the first one is dead or leads to a replica: the address
    may belong to another server by now.
    """
    return {
        "max_connections": CONNECTIONS,
        "timeout": ANSWER_SECONDS,
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "retry": Retry(NoBackoff(), 1, supported_errors=(DisconnectedError, ReadOnlyError)),
    }


@contextmanager
def answering() -> Iterator[None]:
    """Turn every failure of Redis into an UnavailableError."""
    try:
        yield
    except (RedisError, OSError) as error:
        logger.warning("Redis: %s: %s", type(error).__name__, error)
        raise UnavailableError from error


async def evaluated(redis: Any, call: Call) -> tuple[Any, str]:
    """The answer of a script that returns two values, the second of them a text."""
    with answering():
        first, second = await redis.eval(*call.arguments)
    return first.decode() if isinstance(first, bytes) else first, second.decode()
