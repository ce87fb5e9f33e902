"""While a server answers but refuses, everything waits: no worker ends, and no certification becomes a suspect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from app.local.embedded import EmbeddedServer
from tests.service import eventually
from tests.support.api import Api, problem, tensor
from tests.support.pool import Pool, flat
from tests.support.zoo import make_zoo
from workers.connection import RedisConnection, RefusedError, refused_is_away

URL = "/v1/certifications"
LONG = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 20_000}, "radius": None}


@contextmanager
def without_replicas(client: Any) -> Iterator[None]:
    client.config_set("min-replicas-to-write", 1)
    try:
        yield
    finally:
        client.config_set("min-replicas-to-write", 0)


@contextmanager
def busy(client: Any) -> Iterator[None]:
    """A foreign script that does not end."""
    client.config_set("busy-reply-threshold", 50)

    def loop() -> None:
        with pytest.raises(redis.exceptions.ResponseError):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=loop)
    thread.start()
    time.sleep(0.2)  # by now the threshold has passed
    try:
        yield
    finally:
        eventually(lambda: killed(client), "the end of the script")
        thread.join()


def killed(client: Any) -> bool:
    try:
        return bool(client.script_kill())
    except redis.exceptions.ResponseError:  # it has not begun yet
        return False


@contextmanager
def read_only(client: Any) -> Iterator[None]:
    client.replicaof("127.0.0.1", 1)
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


@contextmanager
def without_master(client: Any) -> Iterator[None]:
    client.config_set("replica-serve-stale-data", "no")
    with read_only(client):
        yield


REFUSALS: dict[str, Callable[[Any], Any]] = {
    "NOREPLICAS": without_replicas,
    "BUSY": busy,
    "READONLY": read_only,
    "MASTERDOWN": without_master,
}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("refusing")
    with EmbeddedServer(folder / "server") as server:
        made = Pool(server, make_zoo(folder / "zoo"), "refused")
        made.start()
        yield made
        made.end()


@pytest.fixture(scope="module")
def api(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(pool.server.url, tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.mark.parametrize("code", REFUSALS)
def test_a_server_that_refuses_ends_no_worker_and_makes_no_suspect(pool: Pool, api: Api, code: str) -> None:
    job = pool.submit(flat(0.503), **LONG)
    eventually(lambda: pool.record(job).samples_saved, "a checkpoint")
    with REFUSALS[code](pool.redis):
        with pytest.raises(RefusedError), refused_is_away():
            RedisConnection(pool.server.url).write([("SET", "smoothcert:tried", "1")])
        image = tensor(flat(0.9)[0])
        refusal = api.client.post(URL, json={"ensemble": "trivial", "radius": 0.02, "images": [image]})
        problem(refusal, "unavailable")
        time.sleep(1.0)  # several reports and two heartbeats are refused
    record = pool.ended(job)
    assert (record.status, record.deaths, record.burials) == ("succeeded", 0, 0)
    assert pool.processes[0].poll() is None


def test_other_errors_of_the_server_are_not_taken_for_refusals(pool: Pool) -> None:
    here = RedisConnection(pool.server.url)
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        here.run([("SET", "smoothcert:text", "BUSY OOM NOREPLICAS"), ("LPUSH", "smoothcert:text", "OOM ")])
