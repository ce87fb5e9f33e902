"""What the janitor forgets, and which workers it takes for dead."""

from __future__ import annotations

import time

import pytest

from app.local.embedded import EmbeddedServer
from store import bookkeeping, keys
from store.presence import REMEMBERED, Offer
from tests.support.pool import Pool, wait_until
from workers.connection import RedisConnection
from workers.janitor import Janitor
from workers.settings import WorkerSettings


def test_an_ensemble_that_nobody_serves_any_more_is_forgotten(steady: Pool) -> None:
    offer = Offer.model_validate_json(steady.redis.hget(keys.ENSEMBLES, "steady/trivial"))
    old = offer.model_copy(update={"seen_at": time.time() - REMEMBERED - 1})
    steady.redis.hset(keys.ENSEMBLES, "gone/old", old.model_dump_json())
    wait_until(lambda: not steady.redis.hexists(keys.ENSEMBLES, "gone/old"), "the janitor")
    assert steady.redis.hexists(keys.ENSEMBLES, "steady/trivial")


def test_what_cannot_be_read_does_not_keep_the_janitor_from_the_rest(server: EmbeddedServer) -> None:
    settings = WorkerSettings(redis_url=server.url, pool="damaged", dead_after_s=2)
    here, queue = RedisConnection(server.url), bookkeeping.queue_name("damaged")
    janitor, registry = Janitor(here, settings, "me"), bookkeeping.started_key(queue)
    here.client.hset(keys.record("cert_damaged"), mapping={"id": "cert_damaged", "images": "many"})
    here.client.zadd(registry, {"cert_damaged:execution": 1, "cert_gone:execution": 2})
    here.client.hset(keys.ENSEMBLES, "damaged/later", '{"pool": "damaged", "seen_at": 1}')

    def swept() -> bool:
        janitor.sweep()
        return not here.client.exists(registry)

    wait_until(swept, "both to be buried")


def test_a_janitor_whose_clock_is_wrong_judges_nobody(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WorkerSettings(redis_url=server.url, pool="clocks", dead_after_s=2)
    here, clock = RedisConnection(server.url), time.time
    janitor, registry = Janitor(here, settings, "me"), bookkeeping.started_key(bookkeeping.queue_name("clocks"))

    def sweep() -> bool:
        """Sweep, and return whether the execution was found dead."""
        here.client.delete(f"{keys.JANITOR}:clocks")
        here.client.zadd(registry, {"cert_x:execution": clock() - 1})
        janitor.sweep()
        return not here.client.exists(registry)

    wait_until(sweep, "the first sweep")
    monkeypatch.setattr(time, "time", lambda: clock() + 60)
    assert not sweep()
    assert not sweep()
    assert caplog.text.count("no worker is judged dead") == 1
    monkeypatch.undo()
    assert sweep()
