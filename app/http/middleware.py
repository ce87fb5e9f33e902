"""The outermost middleware: a request id, security headers, one log line and one count in the metrics per exchange.

It also answers unexpected exceptions: it logs them, and the response reveals nothing about them.
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
from app.metrics import RequestMetrics

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that are requested every second or so; they are logged at level DEBUG only, or they would fill the log."""
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
"""Security headers of every response."""

logger = logging.getLogger(__name__)


class ExchangeMiddleware:
    """Plain ASGI middleware: Starlette's base class for middleware costs as much as a whole small request."""

    def __init__(self, app: ASGIApp, *, metrics: RequestMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        logs.begin(request_id=request_id, method=scope["method"], path=scope["path"])

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            logger.info("the client closed the connection")
        except Exception:
            logger.exception("unexpected exception")
            if status:  # too late for another response: the server closes the connection
                raise
            error = ProblemError(
                "internal", "the service has failed unexpectedly; its log has the error under the request id"
            )
            await problem_response(scope, error)(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.count(scope, status, seconds)
            level = logging.DEBUG if scope["path"] in PROBES else logging.INFO
            logger.log(level, "answered", extra={"status": status, "seconds": round(seconds, 6)})


def _request_id(scope: Scope) -> str:
    """The id that the client sent, if it is harmless to log; otherwise a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return secrets.token_hex(16)
