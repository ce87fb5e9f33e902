"""Deadlines pass while there is no worker, and clients are told about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from app.local.embedded import EmbeddedServer
from tests.support.api import Api, question
from tests.support.player import Player

URL = "/v1/certifications"


@pytest.fixture
def deserted(tmp_path: Path) -> Iterator[tuple[Api, Player]]:
    """A service whose only worker has left."""
    with EmbeddedServer(tmp_path / "server") as server, Api(server.url, tmp_path) as api:
        worker = Player(server.url)
        worker.announce()
        worker.leave()
        yield api, worker


def posted(api: Api, worker: Player) -> str:
    answer = api.client.post(URL, json=question(worker.ensemble, deadline_s=1))
    assert answer.status_code == 202
    return str(answer.json()["id"])


def test_whoever_waits_is_told_that_the_deadline_has_passed(deserted: tuple[Api, Player]) -> None:
    api, worker = deserted
    certification = posted(api, worker)
    answer = api.client.get(f"{URL}/{certification}", headers={"Prefer": "wait=20"}).json()
    assert (answer["status"], answer["error"]["code"]) == ("failed", "deadline_exceeded")
    assert worker.waiting() == []
    queue = Queue(worker.queue, connection=worker.redis, serializer=JSONSerializer)
    assert queue.failed_job_registry.get_job_ids(cleanup=False) == [certification]


def test_whoever_listens_is_told_too(deserted: tuple[Api, Player]) -> None:
    api, worker = deserted
    here = f"{URL}/{posted(api, worker)}/events"
    with api.client.stream("GET", here, timeout=httpx2.Timeout(30)) as answer:
        lines = list(answer.iter_lines())
    assert "event: completed" in lines
    assert any("deadline_exceeded" in line for line in lines)
