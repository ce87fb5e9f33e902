"""The API's client of Redis: how long it waits, and how many connections it has."""

from __future__ import annotations

from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as DisconnectedError

from store.address import RedisAddress

CONNECT_SECONDS = 1.0
"""Seconds within which Redis must accept a connection."""
ANSWER_SECONDS = 5.0
"""Seconds within which Redis must answer. It answers after a write to disk, which may take seconds on a shared one."""
CONNECTIONS = 64
"""The number of connections to Redis; further commands wait for one."""


def connected(address: RedisAddress) -> Any:
    """A client, which connects when it is first used. A command that meets a dead connection is sent a second time."""
    return address.async_client(
        max_connections=CONNECTIONS,
        timeout=ANSWER_SECONDS,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 1, supported_errors=(DisconnectedError,)),
    )
