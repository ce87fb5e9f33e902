"""`rq info` tells the truth about a running service, and looking changes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.local.embedded import EmbeddedServer
from smoothcert.errors import SmoothcertError
from store import bookkeeping, keys
from store.transitions import cancellation
from tests.service import eventually
from tests.support.pool import Pool, flat
from tests.support.worker_networks import BREAK
from tests.support.zoo import make_zoo
from workers.placeholder import certification

NAME = "shown"
QUEUE, QUARANTINE = bookkeeping.queue_name(NAME), bookkeeping.quarantine_name(NAME)
ENDLESS = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 2_000_000}, "radius": None}


@dataclass(frozen=True)
class Info:
    """What `rq info` prints."""

    queues: dict[str, tuple[int, int, int, int]]
    """The queued, executing, finished and failed jobs of each queue."""
    workers: dict[str, tuple[str, tuple[str, ...], int, int]]
    """The state, queues, finished and failed jobs of each worker."""


def rq_info(pool: Pool) -> Info:
    command = [str(Path(sys.executable).parent / "rq"), "info", "--raw", "--url", pool.server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    queue = r"^queue (\S+) (\d+), (\d+) executing, (\d+) finished, (\d+) failed$"
    worker = r"^worker (\S+) \(.*\) (\w+) (.*)\. jobs: (\d+) finished, (\d+) failed$"
    return Info(
        {
            name: (int(queued), int(executing), int(finished), int(failed))
            for name, queued, executing, finished, failed in re.findall(queue, done.stdout, re.MULTILINE)
        },
        {
            name: (state, tuple(queues.split(", ")), int(finished), int(failed))
            for name, state, queues, finished, failed in re.findall(worker, done.stdout, re.MULTILINE)
        },
    )


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zoo(tmp_path_factory.mktemp("zoo") / "zoo")


@pytest.fixture
def pool(zoo: Path, tmp_path: Path) -> Iterator[Pool]:
    with EmbeddedServer(tmp_path / "server") as own:
        made = Pool(own, zoo, NAME, heartbeat_s=0.2, dead_after_s=2, slots=2)
        yield made
        made.end()


def test_rq_info_shows_what_waits_what_runs_what_ended_and_who_works(pool: Pool) -> None:
    pool.start()
    (name,) = (each.decode() for each in pool.workers())
    both = (QUEUE, QUARANTINE)
    assert rq_info(pool).workers == {name: ("idle", both, 0, 0)}

    for value, status in ((0.9, "succeeded"), (0.9, "succeeded"), (BREAK, "failed")):
        assert pool.ended(pool.submit(flat(value), "moody")).status == status
    eventually(lambda: rq_info(pool).workers[name][0] == "idle", "an idle worker")
    # RQ does not keep a job that succeeded (its result_ttl is 0), so only the worker's own count remembers it.
    assert rq_info(pool) == Info({QUEUE: (0, 0, 0, 1)}, {name: ("idle", both, 2, 1)})

    running = [pool.submit(flat(0.5), **ENDLESS) for _ in range(2)]
    eventually(lambda: all(pool.record(each).status == "running" for each in running), "both to run")
    waiting = [pool.submit(flat(0.5), **ENDLESS) for _ in range(3)]
    assert rq_info(pool) == Info({QUEUE: (3, 2, 0, 1)}, {name: ("busy", both, 2, 1)})

    for each in waiting:
        call = cancellation.cancel_waiting(pool.record(each), now=1.0, ttl=60)
        assert pool.redis.eval(*call.arguments)[0] == 1
    for each in running:
        assert pool.redis.eval(*cancellation.cancel_running(pool.record(each)).arguments)[0] == 1
    for each in running:
        assert pool.ended(each).status == "canceled"
    eventually(lambda: rq_info(pool).workers[name][0] == "idle", "an idle worker")
    assert rq_info(pool) == Info({QUEUE: (0, 0, 0, 1)}, {name: ("idle", both, 2, 1)})

    pool.processes[0].terminate()
    assert pool.processes[0].wait(60) == 0
    assert rq_info(pool).workers == {}


def test_looking_takes_no_certification_from_the_janitor(pool: Pool) -> None:
    """RQ moves jobs whose heartbeat has expired to the failed ones whenever `rq info` looks at its registry.

    Mutant killed: giving RQ's registry the time after which we take a worker for dead.
    """
    first = pool.start()
    job = pool.submit(flat(0.5), **ENDLESS)
    eventually(lambda: pool.record(job).status == "running", "its beginning")
    first.kill()
    first.wait()
    registry, entry = keys.executions(QUEUE), f"{job}:{pool.record(job).execution}"
    now = pool.redis.time
    eventually(lambda: pool.redis.zscore(registry, entry) < now()[0], "a heartbeat that has expired")
    assert rq_info(pool).queues == {QUEUE: (0, 1, 0, 0)}
    second = pool.start()
    eventually(lambda: pool.record(job).burials == 1, "the burial")
    eventually(lambda: pool.record(job).status == "running", "the second worker")
    quarantined = pool.record(job).queue == QUARANTINE  # unless a checkpoint was saved before the death
    queues = {QUEUE: (0, 0, 0, 0), QUARANTINE: (0, 1, 0, 0)} if quarantined else {QUEUE: (0, 1, 0, 0)}
    assert rq_info(pool).queues == queues
    assert second.poll() is None


def test_a_job_names_a_function_that_says_what_it_is() -> None:
    module, _, name = bookkeeping.FUNCTION.rpartition(".")
    assert (certification.__module__, certification.__name__) == (module, name)
    with pytest.raises(SmoothcertError, match=r"cert_1 must be executed by `python -m workers`"):
        certification("cert_1")
