"""A whole service on this machine, for a benchmark: embedded server, API, workers; real processes, loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import torch
from redis import Redis
from torch import nn

from app.local.embedded import EmbeddedServer
from models.addition import Addition, add
from models.registry import ZOO
from store import bookkeeping

TRIVIAL = "trivial"
SHAPE = (3, 8, 8)
START_S = 120.0


class Deployment:
    """Running while the context is; `settings` are those of the API and the workers, without SMOOTHCERT_."""

    def __init__(self, *, workers: int = 1, **settings: object) -> None:
        self._stack = ExitStack()
        self._workers, self._settings = workers, settings
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._server: EmbeddedServer

    @property
    def url(self) -> str:
        """Of the API."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Deployment:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="smoothcert-")))
        self._server = self._stack.enter_context(EmbeddedServer(folder / "server"))
        said = {"redis_url": self._server.url, "zoo": make_zoo(folder / "zoo"), "port": self.port, **self._settings}
        environment = {**os.environ, **{f"SMOOTHCERT_{name.upper()}": str(value) for name, value in said.items()}}
        self._start("API", ["-m", "app"], environment, folder)
        for number in range(self._workers):
            self._start(f"worker {number}", ["-m", "workers"], environment, folder)
        self._await_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def pids(self) -> dict[str, int]:
        """Of the server, the API and the workers."""
        with Redis.from_url(self._server.url) as redis:
            server = redis.info("server")["process_id"]  # its own: what was started is its guard
        return {"server": server, **{name: process.pid for name, process in self.processes.items()}}

    def waiting(self) -> int:
        """Certifications that no worker has taken yet."""
        with Redis.from_url(self._server.url) as redis:
            return int(redis.llen(bookkeeping.waiting_key(bookkeeping.queue_name("default"))))

    def resident_bytes(self, name: str) -> int:
        """The memory that a process has now."""
        status = Path(f"/proc/{self.pids[name]}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def _start(self, name: str, arguments: list[str], environment: dict[str, str], folder: Path) -> None:
        log = self._stack.enter_context((folder / f"{name}.log").open("wb"))
        process = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=log, stdout=log)
        self.processes[name] = process
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended:
                raise OSError(f"{ended[0]} ended with {self.processes[ended[0]].returncode} before it was ready")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):  # noqa: S310
                    return
            except OSError:
                time.sleep(0.1)
        raise OSError(f"the service was not ready within {START_S:g} s")


def make_zoo(folder: Path) -> Path:
    """The shipped ensembles, and one that is almost nothing, so that the time around it can be seen."""
    folder.mkdir()
    for entry in ZOO.iterdir():
        if entry.is_dir():
            (folder / entry.name).mkdir()
            for file in entry.iterdir():
                (folder / entry.name / file.name).write_bytes(file.read_bytes())
    linear = nn.Linear(SHAPE[0] * SHAPE[1] * SHAPE[2], 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[-1.0], [1.0]]).expand_as(linear.weight))
        linear.bias.copy_(torch.tensor([1.0, -1.0]) * linear.in_features / 2)
    program = folder.parent / "linear.pt"
    torch.jit.save(torch.jit.script(nn.Sequential(nn.Flatten(), linear)), str(program))
    told = Addition(classes=("dark", "light"), input_shape=SHAPE, sigma=0.25, method="by hand")
    add(TRIVIAL, [program], told, zoo=folder)
    return folder


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
