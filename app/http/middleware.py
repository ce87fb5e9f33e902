"""What surrounds every exchange: a request id, security headers, one line in the log, one count in the metrics.

The last to see an exception that nobody expected: it is logged, and the answer says nothing of it.
"""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import logs
from app.http.errors import ProblemError, problem_response
from app.metrics import Traffic

PROBES = frozenset({"/healthz", "/readyz"})
"""Asked every second or so: their answers would fill the log."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
]
"""On every answer."""

logger = logging.getLogger(__name__)


class Envelope:
    """Plain ASGI middleware: Starlette's own base class for it costs as much as a whole small request."""

    def __init__(self, app: ASGIApp, *, traffic: Traffic) -> None:
        self._app, self._traffic = app, traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        logs.begin(request_id=request_id, method=scope["method"], path=scope["path"])

        async def send_enveloped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_enveloped)
        except ClientDisconnect:
            logger.info("the client went away")
        except Exception:
            logger.exception("a mistake of the service")
            if status:  # too late for an answer: the server cuts the connection
                raise
            error = ProblemError("internal", "something went wrong here; the log has it under the request id")
            await problem_response(scope, error)(scope, receive, send_enveloped)
        finally:
            seconds = time.perf_counter() - started
            self._traffic.count(scope, status, seconds)
            level = logging.DEBUG if scope["path"] in PROBES else logging.INFO
            logger.log(level, "answered", extra={"status": status, "seconds": round(seconds, 6)})


def _request_id(scope: Scope) -> str:
    """The caller's own, if it is harmless; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return secrets.token_hex(16)
