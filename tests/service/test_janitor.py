"""What the janitor forgets, and which workers it takes for dead."""

from __future__ import annotations

import time

import pytest

from app.local.embedded import EmbeddedServer
from store import bookkeeping, keys, waiting
from store.presence import REMEMBERED, Offer
from store.transitions import cancellation, lease
from tests.support.pool import Pool, wait_until
from tests.support.stored import accepted, call, read
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


@pytest.mark.parametrize(
    ("lives", "canceled", "seen"),
    [
        (True, False, ("queued", 0, 0, "smoothcert-unlearned")),
        (True, True, ("canceled", 0, 0, "smoothcert-unlearned")),
        (False, False, ("queued", 1, 1, "smoothcert-unlearned-quarantine")),
    ],
)
def test_nobody_died_of_what_a_worker_that_lives_has_not_learned(
    server: EmbeddedServer, lives: bool, canceled: bool, seen: tuple[str, int, int, str]
) -> None:
    """The answer to a look may be lost. A worker that died in the same moment cannot be told from a victim."""
    settings = WorkerSettings(redis_url=server.url, pool="unlearned", dead_after_s=2)
    here, queue = RedisConnection(server.url), bookkeeping.queue_name("unlearned")
    janitor, worker = Janitor(here, settings, "me"), f"worker-{lives}"
    record = accepted(here.client, pool="unlearned", queue=queue)
    made = lease.beginning(queue, worker, now=time.time(), ttl=-1)
    look = waiting.take(
        "unlearned", most=1, most_bytes=100, busy=False, share=1, held={}, holds=["e"], begin=made.commands
    )
    assert waiting.taken(here.eval(look))[1] == [record.id]
    if lives:
        here.client.zadd(keys.WORKERS, {worker: time.time() + 60})
    if canceled:
        call(here.client, cancellation.cancel_running(read(here.client, record)))

    def swept() -> bool:
        here.client.delete(f"{keys.JANITOR}:unlearned")
        janitor.sweep()
        return not read(here.client, record).execution or read(here.client, record).ended

    wait_until(swept, "the janitor")
    found = read(here.client, record)
    assert (found.status, found.deaths, found.burials, found.queue) == seen
    call(here.client, cancellation.cancel_waiting(found, now=time.time(), ttl=60))
    here.client.zrem(keys.WORKERS, worker)
