"""Requests, and the client that sends them, as httpx has them; the same for both drivers."""

from __future__ import annotations

import math
import os
from typing import TypeVar

import httpx

from smoothcert.client.address import Address
from smoothcert.client.errors import ClientError
from smoothcert.client.steps import Listen, Send
from smoothcert.errors import DomainError, require_positive

TIMEOUT_S = 30.0

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


def opened(kind: type[Http], address: Address, timeout: float | None) -> Http:
    """A client of httpx; DomainError where the timeout is none, or the environment asks for what cannot be had."""
    if timeout is not None:
        require_positive("timeout", timeout)
    try:
        return kind(base_url=address.url, headers=address.headers, timeout=timeout)
    except OSError as error:
        trusted = os.environ.get("SSL_CERT_FILE") or "certifi"
        said = f"cannot read the certificates to trust from {trusted!r} (SSL_CERT_FILE): {error.strerror or error}"
        raise DomainError(said) from error
    except (ImportError, httpx.InvalidURL, ValueError) as error:
        said = f"the proxy that ALL_PROXY, HTTPS_PROXY or HTTP_PROXY names cannot be used: {error}"
        raise DomainError(said) from error


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
