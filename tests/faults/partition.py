"""Links between hosts are cut, slowed and restored; the API, two workers and Redis each have their own address."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import httpx2

from app.local.embedded import EmbeddedServer
from tests.faults.exhibit import SMALL
from tests.faults.hosts import Host, hosts
from tests.faults.service import SETTINGS, Service
from tests.faults.witness import Witness
from tests.support.api import ROOT, Api

REDIS_PORT, API_PORT = 6379, 8000
CLIENTS = 3
"""The clients that submit at random moments while links are cut."""
SHORT_S, LONG_S = 1.5, 3 * SETTINGS["dead_after_s"]
"""The longest seconds of most cuts, and of the one in each try during which a worker is taken for dead."""


class RemoteServer(EmbeddedServer):
    """A Valkey on its own host. Its socket in the file system stays, so that the witness is never cut off."""

    def __init__(self, folder: Path, host: Host) -> None:
        super().__init__(folder)
        self._host = host

    @property
    def remote_url(self) -> str:
        return f"redis://:{urlsplit(self.url).password}@{self._host.address}:{REDIS_PORT}/0"

    def start(self) -> EmbeddedServer:
        with self._host.inside():
            return super().start()

    def _configuration(self) -> bytes:
        reached = f"port {REDIS_PORT}\nbind {self._host.address} 127.0.0.1\n"
        return super()._configuration().replace(b"port 0\n", reached.encode())


class RemoteApi(Api):
    """An API on its own host."""

    def __init__(self, server: RemoteServer, folder: Path, host: Host) -> None:
        super().__init__(server.remote_url, folder, host=host.address, open=True)
        self._environment["SMOOTHCERT_PORT"] = str(API_PORT)
        self._host = host
        self.client = httpx2.Client(base_url=f"http://{host.address}:{API_PORT}", timeout=10)

    def _start(self) -> Any:
        with self.log.open("wb") as log:
            return started(self._host, self.command, self._environment, log)


class RemoteService(Service):
    """A service whose processes are on four hosts."""

    def __init__(self, folder: Path, machines: Sequence[Host]) -> None:
        super().__init__(folder, SMALL)
        self.hosts = machines
        self._redis_host, self._api_host, *self._worker_hosts = machines
        self.server: RemoteServer = RemoteServer(folder / "valkey", self._redis_host)

    def _make_api(self) -> Api:
        return RemoteApi(self.server, self._folder, self._api_host)

    def spawn(self) -> Any:
        """Start a worker on the host that has none."""
        used = {getattr(worker, "host", None) for worker in self.workers if worker.poll() is None}
        host = next(each for each in self._worker_hosts if each not in used)
        environment = {**self._pool.environment(), "SMOOTHCERT_REDIS_URL": self.server.remote_url}
        with (self._folder / "workers.log").open("ab") as log:
            return started(host, self._pool.command, environment, log)

    @property
    def url(self) -> str:
        return f"http://{self._api_host.address}:{API_PORT}"


def started(host: Host, command: Sequence[str], environment: dict[str, str], log: Any) -> Any:
    """A process on a host."""
    with host.inside():
        process: Any = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stderr=log)
    process.host = host
    return process


@contextmanager
def stage(folder: Path) -> Iterator[Service]:
    """A service on four hosts."""
    with hosts(4) as machines, RemoteService(folder, machines) as service:
        yield service


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    """Disturb links one after the other, sometimes two at a time, while clients submit."""
    assert isinstance(service, RemoteService)
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    deaths = len(service.deaths)
    witness.submit(service.exhibit.question(chance))

    def submit(pause: float, question: Any) -> None:
        time.sleep(pause)
        witness.post(question)

    with ThreadPoolExecutor(CLIENTS) as clients:
        plans = [(chance.uniform(0, 3.0), service.exhibit.question(chance)) for _ in range(CLIENTS)]
        posted = [clients.submit(submit, *each) for each in plans]
        for longest in chance.sample((SHORT_S, SHORT_S, LONG_S), 3):
            disturb(chance, service.hosts, chance.uniform(0.1, longest))
            time.sleep(chance.uniform(0, 0.5))
    for each in posted:
        each.result()
    witness.submit(service.exhibit.question(chance))  # the service works again without help
    witness.await_ends()
    witness.check(len(service.deaths) == deaths, f"workers ended: {service.deaths[deaths:]}")


def disturb(chance: Random, machines: Sequence[Host], seconds: float) -> None:
    """Cut or slow the link of one host, perhaps of two, and restore it."""
    chosen = chance.sample(list(machines), chance.choice((1, 1, 2)))
    kinds: tuple[Callable[[Host], None], ...] = (Host.cut, Host.cut, Host.slow)
    try:
        for host in chosen:
            chance.choice(kinds)(host)
        time.sleep(seconds)
    finally:
        for host in chosen:
            host.restore()
