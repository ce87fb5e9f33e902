"""A whole service whose processes may be killed: a Valkey, the API and workers, which are started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx2
import numpy.typing as npt
import redis

from app.local.embedded import EmbeddedServer
from smoothcert import Client
from smoothcert.certificate import Certificate
from store import bookkeeping, keys
from store.presence import Presence
from store.record import Record
from tests.faults.exhibit import Exhibit, Images, Reference
from tests.support import nursery
from tests.support.api import Api, tensor
from tests.support.nursery import Child
from tests.support.pool import Pool

POOL = "default"
PATIENCE_S = 90.0
"""The seconds to wait for anything; the machine may be slow."""
SETTINGS = {
    "dead_after_s": 3,
    "heartbeat_s": 0.5,
    "checkpoint_s": 0.3,
    "progress_s": 0.1,
    "watchdog_s": 4,
    "drain_s": 1,
}
Process = Child
T = TypeVar("T")


class StuckError(Exception):
    """Something did not happen in time."""


class Service:
    """Real processes that start in an empty folder; a context manager that ends them all."""

    def __init__(self, folder: Path, exhibit: Exhibit, *, workers: int = 2, data: Path | None = None) -> None:
        """`data` is the folder of the Valkey, if it is not the default one."""
        self.exhibit, self.zoo = exhibit, exhibit.zoo(folder)
        self.reference = Reference(exhibit, self.zoo)
        self.server = EmbeddedServer(data or folder / "valkey")
        self.workers: list[Process] = []
        self.deaths: list[int] = []
        """The exit codes of workers that ended without being told to leave."""
        self._folder, self._count = folder, workers

    def __enter__(self) -> Service:
        self.server.start()
        self.redis: Any = redis.Redis.from_url(self.server.url, socket_timeout=30)
        self._pool = Pool(self.server, self.zoo, POOL, **{**SETTINGS, **self.exhibit.settings})
        try:
            self.api = self._make_api().__enter__()
            self.workers = [self.spawn() for _ in range(self._count)]
            self.until(lambda: len(self.present()) == self._count, "the workers")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.api.__exit__(kind, error, trace)
        self._end()

    def _end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.server.stop()
        self.reference.close()

    # --- processes

    def _make_api(self) -> Api:
        return Api(self.server.url, self._folder)

    def spawn(self) -> Process:
        """Start another worker process, which logs to a file."""
        with (self._folder / "workers.log").open("ab") as log:
            return nursery.start(self._pool.command, env=self._pool.environment(), stderr=log)

    def tend(self) -> None:
        """Restart workers that ended by themselves, as a supervisor does."""
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.deaths.append(worker.returncode)
                self.workers[place] = self.spawn()

    def until(self, look: Callable[[], T], what: str, *, patience: float = PATIENCE_S) -> T:
        """The value of `look` as soon as it is true. Workers are tended meanwhile, and Redis may be away."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(redis.RedisError):
                if seen := look():
                    return seen
            self.tend()
            time.sleep(0.02)
        raise StuckError(f"waited {patience:g} s for {what}")

    def kill_api(self) -> None:
        assert self.api.process is not None
        self.api.process.kill()
        self.api.process.wait()

    def start_api(self) -> None:
        self.api.__enter__()

    # --- what Redis holds

    def present(self) -> list[Presence]:
        """What the live workers report about themselves."""
        names = self.redis.zrange(keys.WORKERS, time.time(), "+inf", byscore=True)
        texts = [self.redis.get(keys.worker(name.decode())) for name in names]
        return [Presence.model_validate_json(text) for text in texts if text]

    def holder(self, record: Record) -> Process | None:
        """The process that has this certification."""
        pid = self.redis.hget(bookkeeping.worker_key(record.worker), "pid")
        return next((worker for worker in self.workers if pid and worker.pid == int(pid)), None)

    def record(self, certification: str) -> Record | None:
        return Record.read(self.redis.hgetall(keys.record(certification)))

    def records(self, *, since: float) -> list[Record]:
        """All records made since a time, also those whose answer was lost."""
        names = self.redis.scan_iter(match=f"{keys.record('')}*", count=1000)
        found = [Record.read(self.redis.hgetall(name)) for name in names]
        return [record for record in found if record and record.created_at >= since]

    def certificates(self, certification: str) -> list[Certificate]:
        """The certificates in the order of the images."""
        found = self.redis.hgetall(keys.certificates(certification))
        return [Certificate.from_json(text) for _, text in sorted((int(k), v) for k, v in found.items())]

    def left_behind(self) -> list[str]:
        """Executions and taken ids that the registries still name; there are none when nothing is under way."""
        queues = (bookkeeping.queue_name(POOL), bookkeeping.quarantine_name(POOL))
        registries = [key for name in queues for key in (bookkeeping.started_key(name), keys.executions(name))]
        found = [entry for registry in registries for entry in self.redis.zrange(registry, 0, -1)]
        found += [entry for name in queues for entry in self.redis.lrange(bookkeeping.taken_key(name), 0, -1)]
        return [entry.decode() for entry in found]

    def counted(self, status: str) -> int:
        """The number of certifications that ended with this status, by the statistics."""
        return int(float(self.redis.hget(keys.STATISTICS, f"certifications:{status}") or 0))

    # --- clients

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api.port}"

    def client(self) -> Client:
        """A client with enough patience for a restart of the API on a slow machine."""
        return Client(self.url, retries=10)

    def body(self, question: Mapping[str, Any], images: Images | None = None) -> dict[str, Any]:
        sent: list[npt.NDArray[Any]] = list(images or self.exhibit.images)
        return {"ensemble": self.exhibit.ensemble, **question, "images": [tensor(image) for image in sent]}

    def post(self, body: Mapping[str, Any], **headers: str) -> httpx2.Response:
        return httpx2.post(f"{self.url}/v1/certifications", json=body, headers=headers, timeout=90)
