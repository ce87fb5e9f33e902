"""rq-dashboard, started as in docs/operation.md, shows what a service does and cannot take anything away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from app.local.embedded import EmbeddedServer
from store import bookkeeping
from tests.service import eventually, free_port
from tests.support.api import ROOT
from tests.support.pool import Pool, flat
from tests.support.worker_networks import BREAK
from tests.support.zoo import make_zoo

NAME = "shown"
QUEUE, QUARANTINE = bookkeeping.queue_name(NAME), bookkeeping.quarantine_name(NAME)
ENDLESS = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 2_000_000}, "radius": None}
OPTIONS = ("--json", "--disable-delete")


@contextmanager
def dashboard(url: str) -> Iterator[httpx2.Client]:
    port = free_port()
    command = [sys.executable, "-m", "rq_dashboard", *OPTIONS, "--bind", "127.0.0.1", "--port", str(port), "-u", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    try:
        eventually(lambda: answers(client), "rq-dashboard")
        yield client
    finally:
        client.close()
        process.kill()
        process.wait()


def answers(client: httpx2.Client) -> bool:
    try:
        return client.get("/").status_code == 200
    except httpx2.TransportError:
        return False


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with EmbeddedServer(tmp_path / "server") as own:
        made = Pool(own, make_zoo(tmp_path / "zoo"), NAME, slots=2, ensembles="moody")
        yield made
        made.end()


def test_it_shows_queues_workers_and_jobs_and_changes_nothing(pool: Pool) -> None:
    pool.start()
    (worker,) = (each.decode() for each in pool.workers())
    failed = pool.submit(flat(BREAK), "moody")
    assert pool.ended(failed).status == "failed"
    running = [pool.submit(flat(0.5), **ENDLESS) for _ in range(2)]
    eventually(lambda: all(pool.record(each).status == "running" for each in running), "both to run")
    waiting = [pool.submit(flat(0.5), **ENDLESS) for _ in range(3)]

    with dashboard(pool.server.url) as client:

        def ids(registry: str) -> list[str]:
            jobs = client.get(f"/0/data/jobs/{QUEUE}/{registry}/8/asc/1.json").json()["jobs"]
            return [each["id"] for each in jobs]

        (queue,) = client.get("/0/data/queues.json").json()["queues"]
        assert (queue["name"], queue["count"]) == (QUEUE, 3)
        assert (queue["started_job_registry_count"], queue["failed_job_registry_count"]) == (2, 1)
        assert (ids("queued"), sorted(ids("started")), ids("failed")) == (waiting, sorted(running), [failed])
        shown = client.get(f"/0/data/job/{failed}.json").json()
        assert (shown["status"], "engine_failed" in shown["exc_info"]) == ("failed", True)
        (seen,) = client.get("/0/data/workers.json").json()["workers"]
        assert (seen["name"], seen["state"], seen["queues"]) == (worker, "busy", [QUEUE, QUARANTINE])
        assert (seen["successful_job_count"], seen["failed_job_count"]) == (0, 1)
        # With --disable-delete, no click can empty a queue.
        for path in (f"/queue/{QUEUE}/queued/empty", f"/job/{waiting[0]}/delete"):
            assert client.post(path).json() == {"status": "DISABLED"}
    assert [pool.record(each).status for each in (*running, *waiting)] == ["running"] * 2 + ["queued"] * 3
    assert pool.redis.llen(bookkeeping.waiting_key(QUEUE)) == 3


def test_the_page_for_operators_names_these_options() -> None:
    assert f"rq-dashboard {' '.join(OPTIONS)} " in (ROOT / "docs" / "operation.md").read_text()
