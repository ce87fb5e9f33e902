"""A whole service under attack, with Valkey, one real worker and the API as processes, and whether it still works."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
import numpy as np

from app.local.embedded import EmbeddedServer
from tests.service import eventually
from tests.support import nursery
from tests.support.api import Api, tensor
from tests.support.nursery import Child
from tests.support.pool import Pool
from tests.support.worker_networks import SHAPE
from tests.support.zoo import make_zoo

URL = "/v1/certifications"
ENSEMBLE = "trivial"
QUESTION: dict[str, Any] = {"ensemble": ENSEMBLE, "radius": 0.02, "procedure": "sequential"}


class Whole:
    """The service, as long as the context lasts; `settings` are those of the API."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._folder, self._settings = folder, settings
        self._stack = ExitStack()
        self.worker_log = folder / "worker.log"

    def __enter__(self) -> Whole:
        with self._stack:
            server = self._stack.enter_context(EmbeddedServer(self._folder / "valkey"))
            self.pool = Pool(server, make_zoo(self._folder / "zoo"), "default")
            self._stack.callback(self.pool.end)
            self.worker = self._start_worker()
            self.api = self._stack.enter_context(Api(server.url, self._folder, **self._settings))
            self._stack = self._stack.pop_all()
        return self

    def _start_worker(self) -> Child:
        with self.worker_log.open("wb") as log:
            command = [sys.executable, "-m", "workers"]
            worker = nursery.start(command, env=self.pool.environment(), stderr=log)
        self.pool.processes.append(worker)
        eventually(lambda: self.pool.workers() or worker.poll() is not None, "a worker")
        assert worker.poll() is None, self.worker_log.read_text()
        return worker

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def client(self) -> httpx2.Client:
        return self.api.client

    def worker_lines(self) -> list[dict[str, Any]]:
        """The lines that the worker has logged."""
        return [json.loads(line) for line in self.worker_log.read_text().splitlines()]

    def certifies(self) -> bool:
        """Whether a good image gets its certificate from the worker of the beginning."""
        payload = {**QUESTION, "images": [tensor(np.full(SHAPE, 255, np.uint8))], "priority": "high"}
        certification = self.client.post(URL, json=payload, headers={"Prefer": "wait=60"}).json()
        alive = self.worker.poll() is None and self.api.process is not None and self.api.process.poll() is None
        return alive and [each["class_name"] for each in certification["certificates"]] == ["light"]
