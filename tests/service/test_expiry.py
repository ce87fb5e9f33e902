"""Nothing outlives its record: keys, list entries and counts go with it, and what waits too long ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app.local.embedded import EmbeddedServer
from smoothcert.problem import Failure
from smoothcert.procedures import Sequential
from smoothcert.request import CertificationRequest
from store import bookkeeping, keys, waiting
from store.transitions import admission, agenda
from tests.service import eventually
from tests.support.player import progress
from tests.support.stored import MANY, POOL, QUEUE, accepted, begun, call, finishing, new, read
from workers.connection import RedisConnection
from workers.janitor import Janitor
from workers.settings import WorkerSettings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path) as running:
        yield running


@pytest.fixture
def client(server: EmbeddedServer) -> Any:
    return redis.Redis.from_url(server.url)


@pytest.fixture
def janitor(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Janitor:
    """A janitor that may sweep at once, and again at once."""
    settings = WorkerSettings(redis_url=server.url, pool=POOL, dead_after_s=2)
    made = Janitor(RedisConnection(server.url), settings, "me")
    monkeypatch.setattr(made, "_in_touch_since", -1e9)
    return made


def sweep(janitor: Janitor, client: Any) -> None:
    client.delete(f"{keys.JANITOR}:{POOL}")
    janitor.sweep()


def test_when_a_record_has_expired_nothing_of_it_is_left(client: Any, janitor: Janitor) -> None:
    """Mutants killed: the times of earlier versions, and a janitor without an agenda."""
    key = keys.idempotency("me", "key")
    record = new(budget=10)
    call(client, admission.accept(record, b"images", MANY, idempotency=(key, "digest"), high=False))
    client.eval(*waiting.take(POOL, most=1, most_bytes=1, busy=False, share=1, held={}).arguments)
    call(client, finishing(read(client, record), begun(client, record), ttl=1))
    sweep(janitor, client)
    assert client.zcard(keys.owned("me")) == 1  # the record says for a while that it has expired
    eventually(lambda: not client.exists(keys.record(record.id)), "the expiry")

    def left() -> list[bytes]:
        sweep(janitor, client)
        return [name for name in client.scan_iter() if name not in OF_THE_SERVICE]

    eventually(lambda: left() == [], "an empty server")


OF_THE_SERVICE = {
    keys.STATISTICS.encode(),
    keys.finished(POOL).encode(),
    keys.bell(POOL).encode(),
    f"{keys.JANITOR}:{POOL}".encode(),
    bookkeeping.worker_key("w").encode(),
    b"rq:queues",
    keys.turns(POOL).encode(),
}
"""Keys of the service itself and not of a certification; the last one names owners, who are few."""


def test_what_waits_past_its_deadline_ends_though_nobody_looks(client: Any, janitor: Janitor) -> None:
    late, early = accepted(client, deadline_at=time.time() - 1), accepted(client, deadline_at=time.time() + 100)
    sweep(janitor, client)
    ended = read(client, late)
    assert ended.status == "failed"
    assert Failure.model_validate_json(ended.error).code == "deadline_exceeded"
    assert client.lrange(bookkeeping.waiting_key(QUEUE), 0, -1) == [early.id.encode()]
    assert client.zrange(keys.waiting(POOL, "me"), 0, -1) == [early.id.encode()]


def test_what_runs_past_its_deadline_is_left_to_its_worker(client: Any, janitor: Janitor) -> None:
    record = accepted(client, deadline_at=time.time() - 1)
    begun(client, record)
    sweep(janitor, client)
    assert read(client, record).status == "running"
    assert client.zscore(keys.AGENDA, agenda.entry(record)) > time.time() + 30


def test_what_a_certification_keeps_is_as_the_document_says(client: Any) -> None:
    """docs/operation.md says about 3 kB for one that has ended, with list entries and without its certificates."""
    request = CertificationRequest(ensemble="e" * 30, radius=0.25, sigma=0.25, procedure=Sequential())
    fields = {"request": request.model_dump_json(), "digest": "d" * 64, "ensemble": "e" * 30, "seed": "s" * 32}
    record = accepted(client, **fields)
    done = progress(read(client, record), 1)
    call(client, finishing(read(client, record), begun(client, record), progress=done, certificates={0: "{}"}))
    names = [keys.record(record.id), keys.certificates(record.id), keys.arrivals(record.id)]
    assert 2000 < sum(client.memory_usage(name, samples=0) for name in names) < 3000
