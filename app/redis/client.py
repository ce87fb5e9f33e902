"""The API's client of Redis: how long it waits, and how many connections it has."""

from __future__ import annotations

from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as DisconnectedError
from redis.exceptions import ReadOnlyError

from store.address import RedisAddress

CONNECT_SECONDS = 1.0
"""Seconds within which Redis must accept a connection."""
ANSWER_SECONDS = 5.0
"""Seconds within which Redis must answer. It answers after a write to disk, which may take seconds on a shared one."""
CONNECTIONS = 64
"""The number of connections to Redis; further commands wait for one."""


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
