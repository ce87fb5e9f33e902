"""A worker with a member at an endpoint, which is a process of its own that goes away and comes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.local.embedded import EmbeddedServer
from models.addition import Addition, add
from smoothcert.engine.errors import RemoteError
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.engine.remote.member import discover
from smoothcert.noise import Gaussian
from tests.service import eventually, free_port
from tests.support.inference import SHAPE
from tests.support.pool import Pool, flat, wait_until
from tests.support.worker_networks import SHAPE as FLAT

POLICY = RemotePolicy(frozenset({"127.0.0.1"}))
SOON = {"procedure": {"name": "fixed", "n": 400, "n0": 20}, "radius": None, "sigma": 0.25}
LONG = {**SOON, "procedure": {"name": "fixed", "n": 30_000, "n0": 20}}


class Endpoint:
    """A server of the protocol at one port."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v2/models/brightness"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "tests.support.inference", str(self.port)])
        eventually(self.answers, "the endpoint")

    def answers(self) -> bool:
        try:
            return bool(discover(self.url, classes=2, input_shape=SHAPE, policy=POLICY))
        except RemoteError:
            return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def pool(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder: Path = tmp_path_factory.mktemp("remote")
    addition = Addition(classes=("dark", "light"), input_shape=SHAPE, noise=Gaussian(0.25))
    add("bright", [], addition, zoo=folder / "zoo", endpoints=[endpoint.url], remote=POLICY)
    hosts = {"remote_hosts": "127.0.0.1", "remote_patience_s": 5, "remote_timeout_s": 3, "watchdog_s": 4}
    with EmbeddedServer(folder / "valkey") as server:
        running = Pool(server, folder / "zoo", "default", **hosts)
        running.start()
        try:
            yield running
        finally:
            running.end()


def test_the_images_of_the_pool_are_those_of_the_endpoint() -> None:
    assert FLAT == SHAPE


def test_a_certificate_of_a_worker_says_that_its_member_is_not_pinned(pool: Pool) -> None:
    certification = pool.submit(flat(0.8), "bright", **SOON)
    assert pool.ended(certification).status == "succeeded"
    (certificate,) = pool.certificates(certification)
    assert (certificate.class_name, certificate.samples) == ("light", 420)
    assert "not pinned" in certificate.remarks[0]


def test_an_endpoint_that_comes_back_costs_time_and_no_sample(pool: Pool, endpoint: Endpoint) -> None:
    certification = pool.submit(flat(0.8), "bright", **LONG)
    wait_until(lambda: pool.record(certification).samples_saved > 0)
    endpoint.kill()
    endpoint.start()
    assert pool.ended(certification).status == "succeeded"
    (certificate,) = pool.certificates(certification)
    assert certificate.samples == 30_020
    assert certificate.counts.total == 30_020


def test_an_endpoint_that_stays_away_fails_its_certifications_and_not_the_worker(
    pool: Pool, endpoint: Endpoint
) -> None:
    workers = pool.workers()
    several = [pool.submit(flat(0.8, 2), "bright", **LONG) for _ in range(3)]
    wait_until(lambda: pool.record(several[0]).samples_saved > 0)
    endpoint.kill()
    for certification in several:
        record = pool.ended(certification)
        assert record.status == "failed"
        assert "has been away for" in record.error
        assert not pool.certificates(certification)
    endpoint.start()
    again = pool.submit(flat(0.8), "bright", **SOON)
    assert pool.ended(again).status == "succeeded"
    assert pool.workers() == workers
