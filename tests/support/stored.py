"""Certifications in a real server, made by the calls of `store` alone."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from app.local.embedded import EmbeddedServer
from store import bookkeeping, keys, waiting
from store.commands import Call, unguarded
from store.record import Record
from store.transitions import admission, endings, lease
from store.transitions.admission import Limits

POOL = "life"
QUEUE, QUARANTINE = bookkeeping.queue_name(POOL), bookkeeping.quarantine_name(POOL)
MANY = Limits(waiting=10**6, active=10**6)


@contextmanager
def private_server() -> Iterator[Any]:
    """A client of a separate server."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        yield redis.Redis.from_url(server.url)


def new(**other: Any) -> Record:
    now = time.time()
    fields = {
        "id": f"cert_{secrets.token_hex(8)}",
        "owner": "me",
        "status": "queued",
        "pool": POOL,
        "queue": QUEUE,
        "ensemble": "e",
        "digest": "d",
        "request": "{}",
        "images": 2,
        "seed": "s",
        "created_at": now,
        "expires_at": now + 10,
    }
    return Record(**{**fields, **other})


def call(client: Any, made: Call) -> tuple[Any, str]:
    first, second = client.eval(*made.arguments)
    return first, second.decode()


def read(client: Any, record: Record) -> Record:
    found = Record.read(client.hgetall(keys.record(record.id)))
    assert found is not None
    return found


def accepted(client: Any, **other: Any) -> Record:
    record = new(**other)
    assert call(client, admission.accept(record, b"images", MANY, idempotency=None, high=False))[0] == b"accepted"
    return record


def taken(client: Any, record: Record) -> Record:
    """The record of a certification that a worker has taken."""
    now = read(client, record)
    call(client, unguarded([waiting.leave(now), ("RPUSH", bookkeeping.taken_key(now.queue), now.name)]))
    return now


def begun(client: Any, record: Record, worker: str = "w") -> str:
    execution, made = lease.begin(taken(client, record), worker, now=time.time(), ttl=100)
    assert call(client, made) == (1, "queued")
    return execution


def finishing(record: Record, execution: str, status: str = "succeeded", **other: Any) -> Call:
    fields: dict[str, Any] = {"now": time.time(), "ttl": 60, "certificates": {0: "{}"}, "progress": "{}"}
    return endings.finish(record, execution, status, **{**fields, "tally": {"samples": 5}, **other})  # type: ignore[arg-type]
