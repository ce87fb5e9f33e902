"""A proxy in front of a real service that misbehaves by a script, with real sockets that are cut at bad moments."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import httpx2

Mischief = Callable[["Exchange"], None]


@dataclass
class Seen:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Exchange:
    """One request at the proxy, and what can be done with it."""

    def __init__(self, handler: BaseHTTPRequestHandler, seen: Seen, upstream: str) -> None:
        self.handler, self.seen, self._upstream = handler, seen, upstream

    def forward(self) -> httpx2.Response:
        return httpx2.request(
            self.seen.method,
            self._upstream + self.seen.path,
            headers=self._headers(),
            content=self.seen.body,
            timeout=90,
        )

    def stream(self, events: int | None = None) -> None:
        """Pass the response on as it comes, and cut the connection after this many events."""
        url = self._upstream + self.seen.path
        sending = httpx2.stream(self.seen.method, url, headers=self._headers(), content=self.seen.body, timeout=90)
        with sending as answer:
            self.begin(answer.status_code, answer.headers)
            passed = b""
            for chunk in answer.iter_raw():
                passed += chunk
                if events is not None and passed.count(b"\n\n") >= events:
                    whole = passed.split(b"\n\n")[:events]
                    self.chunk(b"\n\n".join(whole) + b"\n\nevent: certifi")  # the last part is half of the next event
                    self.drop()
                    return
                if events is None:
                    self.chunk(chunk)
            self.handler.wfile.write(b"0\r\n\r\n")

    def begin(self, status: int, headers: Any) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.handler.send_header(name, value)
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()

    def chunk(self, data: bytes) -> None:
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def drop(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def _headers(self) -> dict[str, str]:
        return {name: value for name, value in self.seen.headers.items() if name.lower() not in ("host", "connection")}


def drop(exchange: Exchange) -> None:
    """End the connection before the service has seen anything."""
    exchange.drop()


def lose_answer(exchange: Exchange) -> None:
    """Let the service act, and lose its response."""
    exchange.forward()
    exchange.drop()


def cut_after(events: int) -> Mischief:
    return lambda exchange: exchange.stream(events)


def refuse(status: int, **headers: str) -> Mischief:
    """Respond as another server would."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.answer(status, {"Content-Type": "text/html", **named}, b"<h1>no</h1>")


def reply(status: int, payload: Any) -> Mischief:
    body = json.dumps(payload).encode()
    return lambda exchange: exchange.answer(status, {"Content-Type": "application/json"}, body)


def changed(change: Callable[[Any], None]) -> Mischief:
    """The response of the service, as a service of another version would give it."""

    def mischief(exchange: Exchange) -> None:
        answer = exchange.forward()
        payload = answer.json()
        change(payload)
        exchange.answer(answer.status_code, {"Content-Type": "application/json"}, json.dumps(payload).encode())

    return mischief


@dataclass
class Rogue:
    """The proxy, as long as the context lasts. `script` says what to do with requests, by the end of their path."""

    upstream: str
    seen: list[Seen] = field(default_factory=list)
    script: list[tuple[str, Mischief]] = field(default_factory=list)

    def plan(self, request: str, *mischiefs: Mischief, times: int = 1) -> None:
        """Plan for requests such as `POST /v1/certifications`, a part of which may be left out."""
        self.script += [(request, mischief) for mischief in mischiefs * times]

    def requests(self, request: str) -> list[Seen]:
        return [seen for seen in self.seen if request in f"{seen.method} {seen.path}"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Rogue:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _take(self, seen: Seen) -> Mischief | None:
        for number, (request, mischief) in enumerate(self.script):
            if request in f"{seen.method} {seen.path}":
                del self.script[number]
                return mischief
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        rogue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                seen = Seen(self.command, self.path, dict(self.headers.items()), body)
                rogue.seen.append(seen)
                exchange = Exchange(self, seen, rogue.upstream)
                mischief = rogue._take(seen)
                try:
                    (mischief or Exchange.stream)(exchange)
                except OSError:  # the client has left
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler
