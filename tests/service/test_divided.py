"""Two real workers share one certification: certificates are those of one engine, and a death costs one shard."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from app.local.embedded import EmbeddedServer
from models.registry import load
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from smoothcert.verification import verify
from store import bookkeeping, keys
from store.record import Record
from store.transitions import cancellation
from tests.support.pool import Pool, flat, wait_until, without_times
from tests.support.zoo import ALLOWED, SIGMA

SEED = "0123456789abcdef"
IMAGES = 8
LONG = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 4_000}, "radius": None, "seed": SEED}
"""A question that takes some seconds."""


@pytest.fixture(scope="module")
def two(server: EmbeddedServer, zoo: Path) -> Iterator[Pool]:
    """A pool of two workers."""
    pool = Pool(server, zoo, "two")
    for _ in range(2):
        pool.start()
    yield pool
    pool.end()


@pytest.fixture(scope="module")
def expected(zoo: Path) -> list[dict[str, object]]:
    """The certificates of an engine in this process."""
    held = load("moody", zoo=zoo, allowed_imports=frozenset(ALLOWED))
    with Engine(held) as engine:
        found = certify(
            engine, torch.from_numpy(flat(0.503, IMAGES)), Question(Gaussian(SIGMA), Fixed(n=4_000)), seed=SEED
        )
        return [without_times(each) for each in found]


def shards(pool: Pool, certification: str) -> list[Record]:
    """The shards that were given away and have not ended."""
    data: dict[bytes, bytes] = pool.redis.hgetall(keys.record(certification))
    names = [field.decode().partition("/")[2] for field in data if field.startswith(b"status/")]
    return [record for name in names if (record := Record.read(data, name))]


def jobs_done(pool: Pool) -> list[int]:
    """The jobs that each worker has finished, as RQ counts them."""
    names = [bookkeeping.worker_key(name.decode()) for name in sorted(pool.workers())]
    return [int(pool.redis.hget(name, "successful_job_count") or 0) for name in names]


def test_two_workers_share_one_certification(two: Pool, expected: list[dict[str, object]]) -> None:
    before = jobs_done(two)
    job = two.submit(flat(0.503, IMAGES), **LONG)
    record = two.ended(job)
    assert (record.status, record.done) == ("succeeded", IMAGES)
    assert all(after > old for old, after in zip(before, jobs_done(two), strict=True)), "both have worked"
    certificates = two.certificates(job)
    assert [without_times(each) for each in certificates] == expected
    assert all(map(verify, certificates))
    assert two.redis.zcard(keys.arrivals(job)) == IMAGES
    left = {key for key in two.redis.scan_iter() if job.encode() in key}
    assert left == {keys.record(job).encode(), keys.certificates(job).encode(), keys.arrivals(job).encode()}


def test_a_single_image_of_few_samples_is_not_divided(two: Pool) -> None:
    job = two.submit(flat(0.9))
    assert two.ended(job).status == "succeeded"
    assert not [field for field in two.redis.hkeys(keys.record(job)) if b"/" in field]


def test_two_workers_share_the_samples_of_one_image(two: Pool, zoo: Path) -> None:
    before = jobs_done(two)
    job = two.submit(
        flat(0.503), "moody", procedure={"name": "fixed", "n": 40_000}, radius=None, seed=SEED, budget=40_100
    )
    (shard,) = wait_until(lambda: shards(two, job), "a range")
    assert shard.place_list == [0]
    first, last = map(int, shard.range.split("-"))
    assert 100 < first < last == 40_100
    assert two.ended(job).status == "succeeded"
    assert all(after > old for old, after in zip(before, jobs_done(two), strict=True)), "both have worked"
    (certificate,) = two.certificates(job)
    held = load("moody", zoo=zoo, allowed_imports=frozenset(ALLOWED))
    with Engine(held) as engine:
        question = Question(Gaussian(SIGMA), Fixed(n=40_000))
        (alone,) = certify(engine, torch.from_numpy(flat(0.503)), question, seed=SEED)
    assert without_times(certificate) == without_times(alone)
    left = {key for key in two.redis.scan_iter() if job.encode() in key}
    assert left == {keys.record(job).encode(), keys.certificates(job).encode(), keys.arrivals(job).encode()}


def test_a_burst_of_single_images_is_spread_over_both_workers(two: Pool) -> None:
    """Mutant killed: the first worker that looks takes all. Both are stopped while the images come, as if at once."""
    before = jobs_done(two)
    for process in two.processes:
        os.kill(process.pid, signal.SIGSTOP)
    jobs = [two.submit(flat(0.503), **LONG) for _ in range(16)]
    for process in two.processes:
        os.kill(process.pid, signal.SIGCONT)
    assert {two.ended(job).status for job in jobs} == {"succeeded"}
    done = [after - old for old, after in zip(before, jobs_done(two), strict=True)]
    assert sum(done) == 16
    assert min(done) >= 5


def test_to_cancel_stops_both_workers(two: Pool) -> None:
    job = two.submit(flat(0.503, IMAGES), **{**LONG, "procedure": {"name": "fixed", "n": 200_000}})
    wait_until(lambda: any(each.worker for each in shards(two, job)), "a shard under way")
    call = cancellation.cancel_running(two.record(job))
    assert two.redis.eval(*call.arguments)[0] == 1
    assert two.ended(job).status == "canceled"
    wait_until(lambda: _idle(two), "two workers without work")


def _idle(pool: Pool) -> bool:
    states = {pool.redis.hget(bookkeeping.worker_key(each.decode()), "state") for each in pool.workers()}
    return states == {b"idle"}


def test_the_shard_of_a_killed_worker_is_the_only_work_that_is_done_again(
    server: EmbeddedServer, zoo: Path, expected: list[dict[str, object]]
) -> None:
    pool = Pool(server, zoo, "killed")
    try:
        processes = {pool.start().pid: pool.processes[-1] for _ in range(2)}
        job = pool.submit(flat(0.503, IMAGES), **LONG)
        (shard,) = wait_until(lambda: [each for each in shards(pool, job) if each.worker], "a shard under way")
        time.sleep(0.5)
        pid = int(pool.redis.hget(bookkeeping.worker_key(shard.worker), "pid"))
        processes[pid].kill()
        processes[pid].wait()
        first, before = pool.record(job), _certificates(pool, job)
        again = wait_until(lambda: [each for each in shards(pool, job) if each.burials], "a shard that waits again")
        assert [each.place_list for each in again] == [shard.place_list]
        between = pool.record(job)
        assert between.execution in (first.execution, ""), "the other worker goes on"
        record = pool.ended(job)
        assert (record.status, record.done, record.burials) == ("succeeded", IMAGES, 0)
        assert [without_times(each) for each in pool.certificates(job)] == expected
        after = _certificates(pool, job)
        assert {place: after[place] for place in before} == before, "what was finished is not done again"
        dead = set(shard.place_list)
        assert {each for each in range(IMAGES) if _began(pool, job, each) > between.started_at + 1} <= dead
    finally:
        pool.end()


def _certificates(pool: Pool, job: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = pool.redis.hgetall(keys.certificates(job))
    return found


def _began(pool: Pool, job: str, place: int) -> float:
    """The time at which the worker that made a certificate began with its image."""
    provenance: Any = pool.certificates(job)[place].provenance
    return float(provenance.started_at.timestamp())
