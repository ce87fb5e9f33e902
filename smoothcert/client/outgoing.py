"""Requests, and the client that sends them, in the terms of httpx2; the same for both drivers."""

from __future__ import annotations

import math
import os
from typing import TypeVar

import httpx2

from smoothcert.client.address import Address
from smoothcert.client.errors import ClientError
from smoothcert.client.steps import OpenStream, Send
from smoothcert.errors import DomainError, require_positive

TIMEOUT_S = 30.0
"""The seconds for which a request waits for the service by default."""

Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)


def open_http(kind: type[Http], address: Address, timeout: float | None) -> Http:
    """A client of httpx2; DomainError if the timeout is wrong or the environment names something unusable."""
    if timeout is not None:
        require_positive("timeout", timeout)
    try:
        return kind(base_url=address.url, headers=address.headers, timeout=timeout)
    except OSError as error:
        trusted = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or "the system"
        detail = f"cannot read the certificates to trust from {trusted!r} (SSL_CERT_FILE): {error.strerror or error}"
        raise DomainError(detail) from error
    except (ImportError, httpx2.InvalidURL, ValueError) as error:
        detail = f"the proxy that ALL_PROXY, HTTPS_PROXY or HTTP_PROXY names cannot be used: {error}"
        raise DomainError(detail) from error


def make_outgoing(http: httpx2.Client | httpx2.AsyncClient, step: Send) -> httpx2.Request:
    """The request that a step describes."""
    if http.is_closed:
        raise ClientError("the client is closed; make another", code="closed")
    usual = math.inf if http.timeout.read is None else http.timeout.read
    read = step.silence_s if isinstance(step, OpenStream) else usual + step.wait_s
    timeout = httpx2.Timeout(_at_most(usual, step.within_s), read=_at_most(read, step.within_s))
    return http.build_request(
        step.method, step.path, headers=step.headers, params=step.params, content=step.content, timeout=timeout
    )


def _at_most(*seconds: float) -> float | None:
    """The least of them, in the form of httpx2: None for any time."""
    least = min(seconds)
    return None if math.isinf(least) else least
