"""Requests as httpx has them, the same for both drivers."""

from __future__ import annotations

import math

import httpx

from smoothcert.client.errors import ClientError
from smoothcert.client.steps import Listen, Send

TIMEOUT_S = 30.0


def outgoing(http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
    """The request that a step asks for."""
    if http.is_closed:
        raise ClientError("the client is closed; make another", code="closed")
    usual = math.inf if http.timeout.read is None else http.timeout.read
    read = step.silence_s if isinstance(step, Listen) else usual + step.wait_s
    timeout = httpx.Timeout(_at_most(usual, step.within_s), read=_at_most(read, step.within_s))
    return http.build_request(
        step.method, step.path, headers=step.headers, params=step.params, content=step.content, timeout=timeout
    )


def _at_most(*seconds: float) -> float | None:
    """As httpx has it: None for any time."""
    least = min(seconds)
    return None if math.isinf(least) else least
