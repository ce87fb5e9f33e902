"""Python processes that start at once: forks of a process that has imported torch and the workers already.

A fresh `python -m workers` spends two seconds on imports, and the tests start more than a hundred. A child here runs
the same module with its own arguments, streams and environment, as if the interpreter had just started. The real
commands are tested too: by `make serve`, the command `smoothcert`, the fleet and the compose file.

A shell can start such processes as well: `Door` has a `python` for its PATH.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
WORKER = ("benchmarks.paper.evaluate", "workers.fleet", "workers.worker")
API = ("app.docs.openapi", "app.main", "uvicorn", "uvloop")
"""The modules that a child finds imported. An API has its own nursery, since it never imports torch."""
MOST_BYTES = 1 << 18
"""The most bytes of a request: arguments and environment."""


class Child:
    """A process of the nursery, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status.makefile("rb", buffering=0)  # select would not see what is buffered
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> bool:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode is not None


def start(
    command: Sequence[str],
    *,
    prepared: tuple[str, ...] = WORKER,
    env: Mapping[str, str] | None = None,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
) -> Child:
    """A process for `python -m MODULE ...` or `python -c CODE ...`, in the root of the tree.

    Streams that are left out are those of the tests.
    """
    interpreter, *arguments = command
    assert interpreter == sys.executable, command
    streams = [os.open(os.devnull, os.O_WRONLY) if each == subprocess.DEVNULL else each for each in (stdout, stderr)]
    files = [(1, 2)[place] if each is None else _descriptor(each) for place, each in enumerate(streams)]
    ours, theirs = socket.socketpair()
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ if env is None else env)})
    with theirs:
        socket.send_fds(_nursery(prepared), [request.encode()], [theirs.fileno(), *files])
    for each, given in zip(streams, (stdout, stderr), strict=True):
        if given == subprocess.DEVNULL:
            os.close(_descriptor(each))
    with ours:
        return Child(ours)


class Door:
    """A nursery in a folder, and another folder, `bin`, with a `python` whose commands the nursery runs."""

    def __init__(self, own: Path, folder: Path, prepared: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.bin = own
        self.bin.mkdir()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(self.bin / "socket"))
        self._listening.listen(64)
        number = self._listening.fileno()
        command = [sys.executable, "-m", "tests.support.nursery", str(number), *prepared]
        self._process = subprocess.Popen(command, cwd=folder, env=dict(env), pass_fds=[number], process_group=0)
        shim = self.bin / "python"
        shim.write_text(SHIM.format(python=sys.executable, socket=str(self.bin / "socket")))
        shim.chmod(0o755)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listening.close()


SHIM = """\
#!{python} -IS
import json, os, signal, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect({socket!r})
payload = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
socket.send_fds(door, [json.dumps(payload).encode()], [0, 1, 2])
pid = int(door.recv(64))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
code = int(door.recv(64))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def _descriptor(stream: Any) -> int:
    return stream if isinstance(stream, int) else int(stream.fileno())


@cache
def _nursery(prepared: tuple[str, ...]) -> socket.socket:
    """The channel to a process that forks; it ends when the channel is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.support.nursery", str(theirs.fileno()), *prepared]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
    atexit.register(process.wait, 60)
    atexit.register(ours.close)
    return ours


# --- the process that forks


def tend(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for every request and report how each child ended. Returns in a child, with its request, and at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno())
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([channel, reading], [], [])
        if reading in ready:
            reading.recv(4096)
            bury(children)
        if channel in ready:
            data, files = received(channel)
            if not data:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for each in (channel, reading, writing, *children.values()):
                    each.close()
                return {**json.loads(data), "files": files}
            children[pid] = socket.socket(fileno=files[0])
            children[pid].sendall(f"{pid}\n".encode())
            for file in files[1:]:
                os.close(file)


def received(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A request, and its files: where to report how it ends, then its streams; at a door, over its own connection."""
    if not channel.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        data, files, _, _ = socket.recv_fds(channel, MOST_BYTES, 3)
        return data, files
    connection, _ = channel.accept()
    data, files, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    return data, [connection.detach(), *files]


def bury(children: dict[int, socket.socket]) -> None:
    """Report the exit codes of the children that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as waiting:
            try:
                waiting.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            except BrokenPipeError:  # no process waits for it any more
                continue


def become(request: dict[str, Any]) -> None:
    """Run the request as the interpreter would; an exception and the exit code are left to the interpreter."""
    status, *streams = request["files"]
    os.close(status)
    for number, file in zip((1, 2) if len(streams) == 2 else (0, 1, 2), streams, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request.get("folder", "."))
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGCHLD, signal.SIG_DFL)):
        signal.signal(number, handler)
    random.seed()  # otherwise all children would draw the same numbers
    flag, what, *arguments = request["arguments"]
    if flag == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        assert flag == "-c", flag
        sys.argv = ["-c", *arguments]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    for name in sys.argv[2:]:
        import_module(name)
    if (request := tend(socket.socket(fileno=int(sys.argv[1])))) is not None:
        become(request)
