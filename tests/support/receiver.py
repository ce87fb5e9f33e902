"""A real HTTP server that receives webhooks and responds as a test tells it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Received:
    """One message, as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """What arrived, and the responses to it."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    """The statuses of the next responses; 204 if there is none."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers of every response."""
    received: list[Received] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)
    """While this is set, messages are not answered."""
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ids(self) -> list[str]:
        return [each.id for each in list(self.received)]


@contextmanager
def receiving(
    statuses: Iterable[int] = (), *, host: str = "127.0.0.1", port: int = 0, certificate: Path | None = None
) -> Iterator[Receiver]:
    """A receiver in threads of this process; with a file of certificate and key, it speaks TLS."""
    state = Receiver(statuses=list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.received.append(Received(self.path, headers, body))
            if state.silent.is_set():
                state.closed.wait()
                return
            self.send_response(state.statuses.pop(0) if state.statuses else 204)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:  # a client did not accept our certificate
            pass

    server = Server((host, port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    state.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
