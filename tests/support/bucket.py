"""An S3-compatible store as a separate process: moto's server, with one bucket."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import httpx2

from tests.service import eventually, free_port

NAME = "kept"


class Moto:
    """`moto_server`, as long as the context lasts. Its contents are gone when it is stopped."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Moto:
        self.start()
        return self

    def start(self) -> None:
        command = (
            sys.executable,
            "-c",
            "from moto.server import main; main()",
            "-H",
            "127.0.0.1",
            "-p",
            str(self.port),
        )
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._made, "the bucket")

    def _made(self) -> bool:
        try:
            return httpx2.put(f"{self.endpoint}/{NAME}", headers=AUTHORIZED).status_code == 200
        except httpx2.TransportError:
            return False

    def names(self) -> list[str]:
        """All objects in the bucket."""
        text = httpx2.get(f"{self.endpoint}/{NAME}?list-type=2", headers=AUTHORIZED).text
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """A context in which it is stopped: connections are accepted, and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


AUTHORIZED = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
