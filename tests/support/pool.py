"""A pool of real worker processes around a real server, and a queue that is filled as the API fills it."""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import redis

from app.local.embedded import EmbeddedServer
from smoothcert.certificate import Certificate
from store import bookkeeping, keys
from store.presence import Offer
from store.record import Record
from store.transitions import admission
from store.waiting import ANONYMOUS
from tests.service import PATIENCE_S, eventually
from tests.support import nursery
from tests.support.nursery import Child
from tests.support.worker_networks import SHAPE
from tests.support.zoo import ALLOWED, SIGMA

ROOT = Path(__file__).parents[2]
SEED = "0123456789abcdef"
LONG = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 20_000}, "radius": None}
"""A question that takes about two seconds."""
wait_until = eventually


def flat(value: float, n: int = 1) -> npt.NDArray[np.float32]:
    """Images in which every pixel is the same."""
    return np.full((n, *SHAPE), value, np.float32)


class Pool:
    """The workers of one pool, and the contents of their queue."""

    command: tuple[str, ...] = (sys.executable, "-m", "workers")

    def __init__(self, server: EmbeddedServer, zoo: Path, name: str, **settings: object) -> None:
        self.server, self.name, self.zoo = server, name, zoo
        self.redis: Any = redis.Redis.from_url(server.url)
        self.settings = {"dead_after_s": 3, "heartbeat_s": 0.5, "checkpoint_s": 0.3, "progress_s": 0.1, **settings}
        self.processes: list[Child] = []

    def environment(self) -> dict[str, str]:
        settings = {
            "redis_url": self.server.url,
            "zoo": self.zoo,
            "pool": self.name,
            "allowed_imports": ",".join(ALLOWED),
            "threads": 1,
            **self.settings,
        }
        named = {name if name.isupper() else f"SMOOTHCERT_{name.upper()}": str(each) for name, each in settings.items()}
        return {**os.environ, **named}

    def start(self, patience: float = PATIENCE_S) -> Child:
        """Start a worker process, and wait until it has announced itself."""
        before = self.workers()
        process = nursery.start(self.command, env=self.environment())
        self.processes.append(process)
        eventually(lambda: self.workers() - before or process.poll() is not None, "a worker", patience=patience)
        assert process.poll() is None, f"the worker ended with {process.returncode}"
        return process

    def workers(self) -> set[bytes]:
        """The names of the live workers of this pool."""
        found = set()
        for name in self.redis.zrange(keys.WORKERS, 0, -1):
            presence = self.redis.get(keys.worker(name.decode()))
            if presence and json.loads(presence)["pool"] == self.name:
                found.add(name)
        return found

    def end(self) -> None:
        """Kill the remaining workers."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def digest(self, ensemble: str) -> str:
        offer = self.redis.hget(keys.ENSEMBLES, f"{self.name}/{ensemble}")
        return Offer.model_validate_json(offer).card.digest

    def submit(
        self,
        images: npt.NDArray[Any],
        ensemble: str = "trivial",
        *,
        seed: str = "",
        deadline_s: float = 0,
        owner: str = ANONYMOUS,
        budget: int = 0,
        **fields: Any,
    ) -> str:
        """Put a certification into the queue."""
        now, file = time.time(), io.BytesIO()
        np.save(file, images)
        request = {"ensemble": ensemble, "sigma": SIGMA, "procedure": "sequential", "radius": 0.02, **fields}
        record = Record(
            id=f"cert_{secrets.token_hex(16)}",
            owner=owner,
            status="queued",
            pool=self.name,
            queue=bookkeeping.queue_name(self.name),
            ensemble=ensemble,
            digest=self.digest(ensemble),
            request=json.dumps(request),
            images=len(images),
            budget=budget,
            seed=seed or secrets.token_hex(16),
            created_at=now,
            expires_at=now + 3600,
            deadline_at=now + deadline_s if deadline_s else 0.0,
        )
        limits = admission.Limits(waiting=10_000, active=10_000)
        call = admission.accept(record, file.getvalue(), limits, idempotency=None, high=False)
        assert self.redis.eval(*call.arguments)[0] == b"accepted"
        return record.id

    def record(self, certification: str) -> Record:
        found = Record.read(self.redis.hgetall(keys.record(certification)))
        assert found is not None
        return found

    def ended(self, certification: str, patience: float = PATIENCE_S) -> Record:
        """The record, once its status is final."""
        eventually(lambda: self.record(certification).ended, f"the end of {certification}", patience=patience)
        return self.record(certification)

    def certificates(self, certification: str) -> list[Certificate]:
        found = self.redis.hgetall(keys.certificates(certification))
        return [Certificate.from_json(text) for _, text in sorted((int(k), v) for k, v in found.items())]


def swept(pool: Pool) -> None:
    """Wait for a whole sweep of the janitor."""
    lock = f"{keys.JANITOR}:{pool.name}"
    wait_until(lambda: pool.redis.exists(lock), "a sweep")
    wait_until(lambda: not pool.redis.exists(lock), "its end")


def without_times(certificate: Certificate) -> dict[str, Any]:
    """A certificate without its times, and without the digest, which depends on them."""
    fields = certificate.model_dump(mode="json", exclude={"digest"})
    for name in ("started_at", "finished_at"):
        del fields["provenance"][name]
    return fields
