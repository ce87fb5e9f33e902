"""HTTP as uvicorn speaks it, with bounds on what comes before the application sees a request, and problems for answers.

uvicorn waits for the head of a request as long as it takes and keeps all of it, whatever its size; what its parser
refuses it answers in plain text.
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
"""Bytes of a request line, headers and trailers; of what else is not body there may be as much as there is body."""
MOST_PIPELINED = 16
"""Requests that are sent before those ahead of them are answered."""
RETRY_SECONDS = 5
FRAMING = (b"content-length", b"transfer-encoding")

logger = logging.getLogger(__name__)


class Protocol(HttpToolsProtocol):
    """One connection; a subclass has the limits of its service."""

    most_connections: ClassVar[int]
    head_seconds: ClassVar[float]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._outside = self._inside = 0
        self._began = self._deaf = False
        self._refused: ProblemError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            detail = f"{self.most_connections:,} connections are open"
            self._refuse(ProblemError("overloaded", detail, retry_after=RETRY_SECONDS))
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._stop_waiting()
        self._hush()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The other side has no more to say, and is taken to be gone."""
        self._hush()

    def data_received(self, data: bytes) -> None:
        """Some more bytes; what is not body must not grow without end, also where the parser has not named it yet."""
        if self._deaf or self.transport.is_closing():  # what was under way when we refused the rest
            return
        self._outside += len(data)
        super().data_received(data)
        if self._outside > MOST_HEAD + self._inside and not self.transport.is_closing():
            self._refuse(_head_too_large(self._outside))

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        self._began = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is there: the request begins, unless it is too large or too many wait."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD:
            self._refused = _head_too_large(size)
        elif len(self.pipeline) >= MOST_PIPELINED:
            detail = f"more than {MOST_PIPELINED} requests were sent ahead of their answers"
            self._refused = ProblemError("bad_request", detail)
        elif self.parser.should_upgrade() and any(name in FRAMING for name, _ in self.headers):
            self._refused = ProblemError("bad_request", "the request has a body and asks for another protocol")
        if self._refused:
            raise self._refused  # stops the parser, which makes it a send_400_response
        self._began = False
        self._stop_waiting()
        super().on_headers_complete()
        if self.parser.should_upgrade():  # it stops here: what follows, it would take for another request
            self.cycle.keep_alive, self._deaf = False, True

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._outside -= len(body)
        self._inside += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._outside = self._inside = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The end of an answer: what is left of this request, and the head of the next, must come soon."""
        if not self.pipeline:
            self._await_head()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What the parser cannot read."""
        self._refuse(self._refused or ProblemError("bad_request", "this is not HTTP/1.1 as it is understood here"))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _hush(self) -> None:
        """Nothing may be written any more; uvicorn says so to the last of the requests, which may not have begun."""
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
        """Without an answer where nothing was asked: it would be taken for that of the next request."""
        if self._began:
            self._refuse(ProblemError("too_slow", f"the head had not arrived after {self.head_seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, error: ProblemError) -> None:
        """An answer that no application gives, and the end of the connection."""
        self._hush()
        request_id = secrets.token_hex(16)
        answer = problem_response({"state": {"request_id": request_id}}, error)
        logger.warning("refused: %s", error, extra={"request_id": request_id, "status": answer.status_code})
        own = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % header for header in (*answer.raw_headers, *HEADERS, *own)]
        self.transport.write(b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n", answer.body]))
        self.transport.close()


def _head_too_large(size: int) -> ProblemError:
    return ProblemError("head_too_large", f"the head of the request has {size:,} bytes or more, at most {MOST_HEAD:,}")
