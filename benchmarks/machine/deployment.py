"""A whole service on this machine for a benchmark: embedded server, API and workers, in processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import torch
from redis import Redis
from torch import nn

from app.local.embedded import EmbeddedServer
from models.addition import Addition, add
from models.registry import ZOO
from smoothcert.attestation.keyring import Keyring
from store import bookkeeping, keys

TRIVIAL = "trivial"
"""The name of an ensemble that costs almost nothing, so that the time around it can be measured."""
SHAPE = (3, 8, 8)
"""The input shape of the trivial ensemble."""
POOL = "default"
START_S = 120.0
"""The seconds within which the service must be ready; loading torch in several processes takes most of them."""


class Deployment:
    """A context manager around a running service. `settings` are those of API and workers, without SMOOTHCERT_."""

    def __init__(self, *, workers: int = 1, **settings: object) -> None:
        self._stack = ExitStack()
        self._workers, self._settings = workers, settings
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._server: EmbeddedServer

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Deployment:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="smoothcert-")))
        self._server = self._stack.enter_context(EmbeddedServer(folder / "server"))
        keyring = folder / "keyring"
        Keyring.new("a benchmark", datetime.now(UTC)).write(keyring)
        own = {"redis_url": self._server.url, "zoo": make_zoo(folder / "zoo"), "port": self.port}
        config = {**own, "keyring_file": keyring, **self._settings}
        environment = {**os.environ, **{f"SMOOTHCERT_{name.upper()}": str(value) for name, value in config.items()}}
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
        """The process ids of the server, the API and the workers, by name."""
        with self.redis as redis:
            server = redis.info("server")["process_id"]  # not that of the process we started, which is its guard
        return {"server": server, **{name: process.pid for name, process in self.processes.items()}}

    @property
    def redis(self) -> Redis:
        """A connection to the server."""
        return Redis.from_url(self._server.url)

    def waiting(self) -> int:
        """The number of certifications that no worker has taken yet."""
        with self.redis as redis:
            return int(redis.llen(bookkeeping.waiting_key(bookkeeping.queue_name(POOL))))

    def stop(self, name: str) -> None:
        """End a process in good order."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait()

    def unarchived(self) -> int:
        """The number of certifications that the archive lacks."""
        with self.redis as redis:
            return int(redis.zcard(keys.ARCHIVAL))

    def resident_bytes(self, name: str) -> int:
        """The resident memory of a process now."""
        status = Path(f"/proc/{self.pids[name]}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def allocated_bytes(self) -> int:
        """The memory that the server has allocated now, by its own count."""
        with self.redis as redis:
            return int(redis.info("memory")["used_memory"])

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
    """Make a zoo of the shipped ensembles and the trivial one, which tells dark images from light ones."""
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
    addition = Addition(classes=("dark", "light"), input_shape=SHAPE, sigma=0.25, method="by hand")
    add(TRIVIAL, [program], addition, zoo=folder)
    return folder


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
