"""The health check of a container: whether Redis has heard a worker on this host lately."""

from __future__ import annotations

import socket
import time

import redis
from pydantic import ValidationError

from store import keys
from store.settings import RedisSettings, explain_settings
from workers.errors import HealthError

ANSWER_S = 4
"""Seconds that Redis has for an answer: less than the time-out of the container's health check."""


def check() -> None:
    """Raise HealthError unless a worker on this host has sent a heartbeat lately."""
    host = socket.gethostname()
    if host not in {_host(name) for name in _alive()}:
        raise HealthError(f"no worker on {host!r} has sent a heartbeat lately: it is still starting, or it has ended")


def _alive() -> list[str]:
    try:
        address = RedisSettings().redis
    except ValidationError as error:
        raise HealthError(f"the settings are wrong: {explain_settings(error)}") from error
    try:
        with address.client(socket_connect_timeout=ANSWER_S, socket_timeout=ANSWER_S) as client:
            names: list[bytes] = client.zrangebyscore(keys.WORKERS, time.time(), "+inf")
    except redis.exceptions.RedisError as error:
        raise HealthError(f"Redis does not say which workers are alive: {error}") from error
    return [name.decode() for name in names]


def _host(name: str) -> str:
    """The host of a worker, whose name is the host and a random part."""
    return name.rpartition("-")[0]
