"""A worker whose Redis goes away, stops or is full."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.local.embedded import EmbeddedServer
from store import keys, waiting
from store.commands import Call
from tests.support.pool import LONG, SEED, Pool, flat, swept, wait_until, without_times
from tests.support.zoo import ALLOWED
from workers.connection import RedisConnection
from workers.holdings import Holdings
from workers.settings import WorkerSettings
from workers.taken import fetch
from workers.worker import CertificationWorker


@pytest.fixture
def alone(zoo: Path, tmp_path: Path) -> Iterator[Pool]:
    """A pool with its own server, which may be killed or filled up."""
    with EmbeddedServer(tmp_path / "server") as own:
        made = Pool(own, zoo, "alone")
        yield made
        made.end()


def test_redis_may_go_away_and_come_back_in_the_middle(alone: Pool, expected: dict[str, object]) -> None:
    worker = alone.start()
    job = alone.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    alone.server.kill()
    time.sleep(0.5)  # several reports and heartbeats fail
    alone.server.start()
    assert alone.ended(job).status == "succeeded"
    assert [without_times(each) for each in alone.certificates(job)] == [expected]
    assert worker.poll() is None


def test_a_full_redis_ends_no_worker_and_loses_nothing(alone: Pool, expected: dict[str, object]) -> None:
    worker = alone.start()
    job = alone.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    alone.redis.config_set("maxmemory", 1)
    time.sleep(1)  # many reports and two heartbeats fail
    alone.redis.config_set("maxmemory", 0)
    assert alone.ended(job).status == "succeeded"
    assert [without_times(each) for each in alone.certificates(job)] == [expected]
    assert worker.poll() is None


def test_an_end_is_written_even_where_memory_is_full(alone: Pool) -> None:
    alone.start()
    job = alone.submit(flat(0.503), **LONG)
    wait_until(lambda: alone.record(job).status == "running", "its beginning")
    alone.redis.config_set("maxmemory", 1)
    assert alone.ended(job).status == "succeeded"


def test_a_worker_leaves_even_where_redis_does_not_come_back(alone: Pool) -> None:
    alone.settings["drain_s"] = 0.5
    hasty = "import runpy, workers.worker as it; it.FAREWELL_S = 1.0; runpy.run_module('workers', run_name='__main__')"
    alone.command = (sys.executable, "-c", hasty)
    worker = alone.start()
    job = alone.submit(flat(0.5), **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    wait_until(lambda: alone.record(job).status == "running", "its beginning")
    alone.server.kill()
    worker.terminate()
    assert worker.wait(60) == 70


def test_a_worker_that_waits_for_an_answer_before_it_begins_leaves_when_it_is_told_to(alone: Pool) -> None:
    """Mutant killed: a worker that asks for what it took until Redis answers, whatever it is told meanwhile."""
    mute = (
        "import runpy, redis, workers.worker as it\n"
        "def fetch(*_): raise redis.ConnectionError('away')\n"
        "it.fetch = fetch; runpy.run_module('workers', run_name='__main__')"
    )
    alone.command = (sys.executable, "-c", mute)
    worker = alone.start()
    job = alone.submit(flat(0.5), **LONG)
    wait_until(lambda: alone.record(job).status == "running", "its beginning")
    worker.terminate()
    assert worker.wait(60) == 0


def test_a_redis_that_stands_still_for_a_while_makes_nobody_dead(alone: Pool) -> None:
    alone.start()
    job = alone.submit(flat(0.5), **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    swept(alone)
    execution, redis = alone.record(job).execution, alone.redis.info("server")["process_id"]
    os.kill(redis, signal.SIGSTOP)
    time.sleep(3.5)  # longer than dead_after_s
    os.kill(redis, signal.SIGCONT)
    swept(alone)
    assert alone.record(job).execution == execution


def test_redis_may_go_away_while_a_batch_is_begun(alone: Pool, zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaving(RedisConnection):
        """A connection whose server goes away right after a response."""

        def call(self, calls: Sequence[Call]) -> list[tuple[bool, str]]:
            answers = super().call(calls)
            alone.server.kill()
            return answers

    settings = WorkerSettings(redis_url=alone.server.url, zoo=zoo, pool=alone.name, allowed_imports=",".join(ALLOWED))
    holdings = Holdings.load(settings, "cpu")
    digests = {card.name: card.digest for card in holdings.cards}
    monkeypatch.setattr(alone, "digest", digests.__getitem__)
    deleted, job = alone.submit(flat(0.9)), alone.submit(flat(0.9))
    worker = CertificationWorker(Leaving(alone.server.url), settings, holdings)
    with worker.engines:
        call = waiting.take(alone.name, most=2, most_bytes=1 << 20, busy=False, share=2, held={})
        _, names = waiting.taken(worker.redis.eval(call))
        assert names == [deleted, job]
        found = fetch(worker.redis, names)
        alone.redis.delete(keys.record(deleted))
        worker._begin(found, worker.queue)  # it has nothing to write after the response
        assert [(work.record.id, work.prepared) for work in worker.clerk.works] == [(job, True)]
