"""Exchanges with an endpoint over HTTP, each within a time limit.

Connections are kept open and used again. No redirect is followed and no proxy used: the operator has allowed exactly
one host.
"""

from __future__ import annotations

import socket
import ssl
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from smoothcert.engine.errors import RemoteError
from smoothcert.engine.remote.endpoint import ModelAddress

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""The statuses of a server that may answer the same request later."""
LONGEST_PAUSE_S = 30.0
"""The longest `Retry-After` that is obeyed in full."""


class AwayError(RemoteError):
    """The endpoint cannot be reached, is slow or busy: the same request may succeed later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Reply:
    """An answer with status 200."""

    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes


@dataclass
class Connections:
    """Open connections to one host; threads may share them."""

    address: ModelAddress
    timeout_s: float
    _idle: list[HTTPConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        weakref.finalize(self, _close_all, self._idle)  # a network is dropped without being closed

    def exchange(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None, most: int
    ) -> Reply:
        """The answer of at most `most` bytes; AwayError if another try makes sense, RemoteError otherwise."""
        connection = self._idle.pop() if self._idle else self._connection()
        late = threading.Event()
        # The time limit of a socket starts again with every byte, so a slow endpoint is cut off from outside.
        timer = threading.Timer(self.timeout_s, _cut, [connection, late])
        timer.daemon = True
        timer.start()
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            data = response.read(most + 1)
            whole = response.isclosed()
        except (OSError, HTTPException) as error:
            connection.close()
            if late.is_set() or isinstance(error, TimeoutError):
                raise AwayError(f"{self.address.place} has not answered within {self.timeout_s:g} s") from error
            raise AwayError(f"{self.address.place} cannot be reached: {type(error).__name__}: {error}") from error
        finally:
            timer.cancel()
        if late.is_set():
            connection.close()
            raise AwayError(f"{self.address.place} has not answered within {self.timeout_s:g} s")
        if response.status == 200 and whole and not response.will_close:
            self._idle.append(connection)
        else:
            connection.close()
        answered = {name.lower(): value for name, value in response.getheaders()}
        self._judge(response.status, answered, data, most)
        return Reply(answered, data)

    def close(self) -> None:
        _close_all(self._idle)

    def _judge(self, status: int, headers: Mapping[str, str], data: bytes, most: int) -> None:
        detail = f"{self.address.place} answers {status}: {data[:200].decode(errors='replace')!r}"
        if status in AGAIN:
            raise AwayError(detail, _seconds(headers.get("retry-after")))
        if status != 200:
            raise RemoteError(detail)
        if len(data) > most:
            raise RemoteError(f"{self.address.place} answers with more than {most:,} bytes")
        length = headers.get("content-length")
        if length is not None and length != str(len(data)):
            raise AwayError(f"{self.address.place} answers with {len(data):,} bytes, and its header says {length[:20]}")

    def _connection(self) -> HTTPConnection:
        host = self.address.host.strip("[]")
        if self.address.scheme == "http":
            return HTTPConnection(host, self.address.port, timeout=self.timeout_s)
        return HTTPSConnection(host, self.address.port, timeout=self.timeout_s, context=ssl.create_default_context())


def _close_all(idle: list[HTTPConnection]) -> None:
    while idle:
        idle.pop().close()


def _cut(connection: HTTPConnection, late: threading.Event) -> None:
    late.set()
    with suppress(OSError, AttributeError):  # it may have no socket yet, or none any more
        connection.sock.shutdown(socket.SHUT_RDWR)


def _seconds(stated: str | None) -> float | None:
    """The seconds of a `Retry-After`; a date, which servers of models do not send, counts as none."""
    if stated is None or not stated.strip().isdecimal() or len(stated) > 9:
        return None
    return min(float(stated), LONGEST_PAUSE_S)
