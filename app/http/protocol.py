"""uvicorn's HTTP/1.1, with limits on everything that comes before the application sees a request.

uvicorn itself waits for the head of a request without limit, keeps all of it whatever its size, and answers malformed
requests in plain text. Here heads are limited in size and time, and every refusal is a problem (RFC 9457).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.http.errors import ProblemError, problem_response
from app.http.middleware import HEADERS

MOST_HEAD = 65_536
"""Bytes of the request line, headers and trailers. Chunk framing may take as many bytes more as the body has."""
MOST_PIPELINED = 16
"""The number of requests that a client may send before the first of them is answered."""
RETRY_SECONDS = 5
"""The Retry-After while too many connections are open."""
FRAMING = (b"content-length", b"transfer-encoding")
"""Headers that announce a body."""

logger = logging.getLogger(__name__)


class BoundedProtocol(HttpToolsProtocol):
    """One connection; a subclass sets the limits."""

    most_connections: ClassVar[int]
    head_seconds: ClassVar[float]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._outside = self._inside = 0  # bytes of the present request outside and inside its body
        self._began = False  # whether a head has begun to arrive
        self._deaf = False  # whether all further bytes are ignored
        self._refused: ProblemError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            detail = f"{self.most_connections:,} connections are open"
            self._refuse(ProblemError("overloaded", detail, retry_after=RETRY_SECONDS))
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_answering()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """A client that closes its side is taken to be gone."""
        self._stop_answering()

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the parser, and refuse a head that grows too large, also before the parser reports a header."""
        if self._deaf or self.transport.is_closing():  # bytes that were under way when the request was refused
            return
        self._outside += len(data)
        super().data_received(data)
        if self._outside > MOST_HEAD + self._inside and not self.transport.is_closing():
            self._refuse(_head_too_large(self._outside))

    def on_message_begin(self) -> None:
        self._began = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Let the application begin, unless the head is too large or too many requests wait."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD:
            self._refused = _head_too_large(size)
        elif len(self.pipeline) >= MOST_PIPELINED:
            detail = f"at most {MOST_PIPELINED} requests may be sent ahead of their answers"
            self._refused = ProblemError("bad_request", detail)
        elif self.parser.should_upgrade() and any(name in FRAMING for name, _ in self.headers):
            self._refused = ProblemError("bad_request", "a request for another protocol must not have a body")
        if self._refused:
            raise self._refused  # stops the parser, and uvicorn calls send_400_response
        self._began = False
        self._stop_waiting()
        super().on_headers_complete()
        if self.parser.should_upgrade():  # the parser stops here, and would take what follows for another request
            self.cycle.keep_alive, self._deaf = False, True

    def on_body(self, body: bytes) -> None:
        self._outside -= len(body)
        self._inside += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._outside = self._inside = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """After a response, the rest of this request and the head of the next must arrive in time."""
        if not self.pipeline:
            self._await_head()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refused or ProblemError("bad_request", "the request is not valid HTTP/1.1"))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _stop_answering(self) -> None:
        """Stop the response under way from writing.

        uvicorn tells only the last request of the connection, which may not have begun.
        """
        if self._answering:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.head_seconds, self._close_slow)

    def _stop_waiting(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _close_slow(self) -> None:
        """Close the connection; without an answer if no head has begun: a client would misattribute it."""
        if self._began:
            self._refuse(ProblemError("too_slow", f"the head had not arrived after {self.head_seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, error: ProblemError) -> None:
        """Answer in place of the application, and close the connection."""
        self._stop_answering()
        request_id = secrets.token_hex(16)
        answer = problem_response({"state": {"request_id": request_id}}, error)
        logger.warning("refused: %s", error, extra={"request_id": request_id, "status": answer.status_code})
        own = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % header for header in (*answer.raw_headers, *HEADERS, *own)]
        self.transport.write(b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n", answer.body]))
        self.transport.close()


def _head_too_large(size: int) -> ProblemError:
    return ProblemError(
        "head_too_large", f"the head of the request has {size:,} bytes or more, at most {MOST_HEAD:,} are accepted"
    )
