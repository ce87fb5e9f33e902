"""A primary, its replica and three Sentinels as real processes; the primary is killed, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from app.http.errors import UnconfirmedError
from app.local.embedded import EmbeddedServer
from app.redis import submissions
from app.redis.queue import Queue
from app.redis.submissions import Receipt
from smoothcert.problem import Problem
from store.address import RedisAddress
from store.settings import RedisSettings
from tests.service import eventually
from tests.support.api import Api, picture, problem, text
from tests.support.pool import Pool, flat, without_times
from tests.support.servers import KEEPING, ServerProcess
from tests.support.stored import MANY, new
from tests.support.zoo import make_zoo

URL = "/v1/certifications"
PASSWORD, SENTINELS_PASSWORD = "of/the@servers", "of-the-sentinels"
IMAGE = text(picture(size=(8, 8)))


@dataclass(frozen=True)
class Watched:
    """A primary and a replica that Sentinels watch."""

    primary: ServerProcess
    replica: ServerProcess
    settings: dict[str, str]
    """The settings of a process that finds the primary through the Sentinels."""

    @property
    def address(self) -> RedisAddress:
        return RedisSettings(**self.settings).redis  # type: ignore[arg-type]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    known = (*KEEPING, f"requirepass {PASSWORD}", f"masterauth {PASSWORD}", "repl-diskless-sync-delay 0")
    with ExitStack() as stack:
        primary = stack.enter_context(ServerProcess(tmp_path / "primary", *known))
        follows = f"replicaof 127.0.0.1 {primary.port}"
        replica = stack.enter_context(ServerProcess(tmp_path / "replica", *known, follows))
        client = primary.client(password=PASSWORD)
        eventually(lambda: client.info("replication")["connected_slaves"] == 1, "the replica")  # before Sentinels look
        lines = (
            f"requirepass {SENTINELS_PASSWORD}",
            f"sentinel monitor mine 127.0.0.1 {primary.port} 2",
            f"sentinel auth-pass mine {PASSWORD}",
            "sentinel down-after-milliseconds mine 500",
            "sentinel failover-timeout mine 3000",
        )
        sentinels = [
            stack.enter_context(ServerProcess(tmp_path / f"sentinel-{n}", *lines, sentinel=True)) for n in range(3)
        ]
        for sentinel in sentinels:
            client = sentinel.client(password=SENTINELS_PASSWORD)
            eventually(lambda client=client: _knows_all(client.sentinel_masters()["mine"]), "the Sentinels to meet")
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
        for name, text in (("server", PASSWORD), ("sentinel", SENTINELS_PASSWORD)):
            (tmp_path / f"{name}-password").write_text(f"{text}\n")
        settings = {
            "redis_url": f"redis+sentinel://{hosts}/mine/0",
            "redis_password_file": str(tmp_path / "server-password"),
            "redis_sentinel_password_file": str(tmp_path / "sentinel-password"),
        }
        yield Watched(primary, replica, settings)


def _knows_all(service: dict[str, Any]) -> bool:
    return service["num-slaves"] == 1 and service["num-other-sentinels"] == 2 and service["flags"] == "master"


def test_what_was_acknowledged_survives_the_primary_and_ends(watched: Watched, tmp_path: Path) -> None:
    settings = {name: value for name, value in watched.settings.items() if name != "redis_url"}
    url = watched.settings["redis_url"]
    here: Any = SimpleNamespace(url="redis://")
    pool = Pool(here, make_zoo(tmp_path / "zoo"), "default", **watched.settings, strict="true")
    pool.redis = watched.address.client()
    try:
        worker = pool.start()
        with Api(url, tmp_path, **settings, wait_replicas=1, strict="true") as api:
            checks = {check["name"]: check["status"] for check in api.client.get("/readyz").json()["redis"]}
            assert set(checks.values()) == {"ok"}
            assert "replicas" in checks

            def posted(key: str, **headers: str) -> httpx2.Response:
                body = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential", "images": [IMAGE]}
                return api.client.post(URL, json=body, headers={"Idempotency-Key": key, **headers})

            # 1. Everything works: a wait is ended by a message.
            assert posted("before", Prefer="wait=60").json()["status"] == "succeeded"
            # 2. The primary is killed while acknowledged certifications wait.
            worker.send_signal(signal.SIGSTOP)
            acknowledged = []
            for number in range(10):
                answer = posted(f"waiting-{number}")
                assert answer.status_code == 202, answer.text
                acknowledged.append(answer.json()["id"])
            watched.primary.kill()
            worker.send_signal(signal.SIGCONT)
            # 3. Nothing is accepted until a replica can confirm it, and the responses say so.
            unconfirmed = eventually(lambda: _refused(posted("during"), "unconfirmed"), "the other server")
            assert "0 of 1 replicas" in unconfirmed.detail
            for certification in acknowledged:
                assert pool.ended(certification).status == "succeeded"
            # 4. The old primary returns as a replica at once; Sentinels would take ten seconds to make it one.
            watched.primary.start()
            watched.primary.client(password=PASSWORD).replicaof("127.0.0.1", watched.replica.port)
            accepted = eventually(lambda: (answer := posted("during")).is_success and answer, "a replica")
            assert accepted.headers["idempotency-replayed"] == "true"
            ends = api.client.get(f"{URL}/{accepted.json()['id']}", headers={"Prefer": "wait=60"})
            assert ends.json()["status"] == "succeeded"
            assert "Traceback" not in api.log.read_text()
    finally:
        pool.end()


def test_a_repeated_request_is_confirmed_by_replicas_that_have_the_first_one(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WAIT alone would count a replica for a connection that has written nothing, however far behind the replica is."""
    replica = watched.replica.client(password=PASSWORD).info("server")["process_id"]

    async def submit(key: str) -> Receipt:
        """Submit over a separate connection."""
        async with Queue(watched.address, MANY, result_ttl=60, replicas=1).listening() as made:
            return await made.submissions.add(new(), b"images", idempotency=(key, "digest"))

    assert asyncio.run(submit("first")).outcome == "accepted"
    assert asyncio.run(submit("first")).outcome == "replay"
    os.kill(replica, signal.SIGSTOP)
    monkeypatch.setattr(submissions, "CONFIRM_SECONDS", 0.2)  # nothing that is awaited could come
    try:
        for _ in range(3):
            with pytest.raises(UnconfirmedError, match="0 of 1 replicas"):
                asyncio.run(submit("second"))
    finally:
        os.kill(replica, signal.SIGCONT)
    monkeypatch.undo()
    assert asyncio.run(submit("second")).outcome == "replay"


def test_results_that_are_lost_with_a_primary_are_made_again(tmp_path: Path) -> None:
    """The server becomes a replica that had not received the end, while the worker goes on."""
    with EmbeddedServer(tmp_path / "server") as server:
        pool = Pool(server, make_zoo(tmp_path / "zoo"), "default", dead_after_s=2)
        try:
            pool.start()
            fixed = {"procedure": {"name": "fixed", "n": 10_000}, "radius": None}
            certification = pool.submit(flat(0.503), "moody", **fixed)
            eventually(lambda: pool.record(certification).samples_saved, "a checkpoint")
            replica = _dumped(pool.redis)
            assert pool.record(certification).status == "running"
            assert pool.ended(certification).status == "succeeded"
            before = pool.certificates(certification)
            with pool.redis.pipeline() as pipeline:
                pipeline.flushall()
                for key, ttl, value in replica:
                    pipeline.restore(key, max(ttl, 0), value)
                pipeline.execute()
            assert pool.record(certification).status == "running"
            assert pool.ended(certification).status == "succeeded"
            assert [*map(without_times, pool.certificates(certification))] == [*map(without_times, before)]
        finally:
            pool.end()


def _dumped(client: Any) -> list[tuple[bytes, int, bytes]]:
    """Every key with its time to live and its value, at one moment."""
    names = list(client.scan_iter())
    with client.pipeline() as pipeline:
        for name in names:
            pipeline.pttl(name)
            pipeline.dump(name)
        answers = pipeline.execute()
    every = zip(names, answers[::2], answers[1::2], strict=True)
    return [(name, ttl, value) for name, ttl, value in every if value is not None]


def _refused(answer: httpx2.Response, code: str) -> Problem | None:
    """The problem, if it is this one; until then the queue is away."""
    found = Problem.model_validate_json(answer.content)
    return problem(answer, code) if found.code == code else problem(answer, "unavailable") and None
