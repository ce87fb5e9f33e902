"""A user of Redis with exactly the rights in docs/operation.md runs the whole service, and no right is unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.service import eventually
from tests.support.api import Api, picture, problem, text
from tests.support.pool import Pool, flat
from tests.support.servers import KEEPING, ServerProcess
from tests.support.worker_networks import BREAK
from tests.support.zoo import make_zoo

ROOT = Path(__file__).parents[2]
URL = "/v1/certifications"
SOURCES = [path for package in ("app", "store", "workers") for path in sorted((ROOT / package).rglob("*.py"))]
OPTIONAL = {"client|setinfo", "config|get"}
"""Commands that are tried but not needed. Redis 7.0 does not know the first, and would not start with a right to it."""
CLIENTS = ("client", "pipeline", "pubsub", "redis")
"""The names that our sources give to clients of Redis."""


def documented() -> str:
    """The user's rules from the documentation, on one line."""
    (block,) = re.findall(r"```text\n(user smoothcert .*?)```", (ROOT / "docs" / "operation.md").read_text(), re.DOTALL)
    return " ".join(block.split())


def granted() -> set[str]:
    return {word[1:] for word in documented().split() if word.startswith("+")}


def named(known: set[str]) -> set[str]:
    """The commands of the server that our sources name: in scripts, as data, and as methods of a client."""
    found: set[str] = set()
    for path in SOURCES:
        source = path.read_text()
        found |= set(re.findall(r"redis\.call\('([A-Z]+)'", source))
        found |= set(re.findall(r"\(\"([A-Z]{3,})\"", source))
        found |= {name.upper() for name in re.findall(rf"\b_?(?:{'|'.join(CLIENTS)})\.([a-z]+)\(", source)}
    return {name.lower() for name in found} & known - {"pubsub"}  # this method makes an object and sends nothing


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    rules = documented().replace("PASSWORD", "secret")
    lines = (*KEEPING, rules, "user admin on >admin ~* &* +@all", "user default off")
    with ServerProcess(tmp_path_factory.mktemp("acl"), *lines) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Any:
    return server.client(username="admin", password="admin")


@pytest.fixture(scope="module")
def used(server: ServerProcess, admin: Any, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The commands that a service of this user sent."""
    folder = tmp_path_factory.mktemp("life")
    (folder / "password").write_text("secret\n")
    url, password = f"redis://smoothcert@127.0.0.1:{server.port}/0", str(folder / "password")
    here: Any = SimpleNamespace(url=f"redis://admin:admin@127.0.0.1:{server.port}/0")
    user = {"redis_url": url, "redis_password_file": password}
    pool = Pool(here, make_zoo(folder / "zoo"), "default", **user, dead_after_s=2, heartbeat_s=0.2)
    limits = {"queue_length": 4, "active_certifications": 100}
    try:
        with Api(url, folder, redis_password_file=password, strict="true", **limits) as api:
            live(api, pool)
    finally:
        pool.end()
    statistics = admin.info("commandstats")
    return {name.removeprefix("cmdstat_") for name in statistics}


def live(api: Api, pool: Pool) -> None:
    """Let a service live: work succeeds, fails, is canceled and deleted, a worker dies, and the queue is full."""
    image = text(picture(size=(8, 8)))
    first = pool.start()
    body = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential", "images": [image]}
    for key in ("one", "one"):
        answer = api.client.post(URL, json=body, headers={"Prefer": "wait=60", "Idempotency-Key": key})
        assert answer.json()["status"] == "succeeded", answer.text
    done = answer.json()["id"]
    assert "event: completed" in api.client.get(f"{URL}/{done}/events").text
    assert api.client.get(URL).json()["data"][0]["id"] == done
    assert api.client.delete(f"{URL}/{done}").status_code == 204
    assert "smoothcert_redis_up 1.0" in api.client.get("/metrics").text
    assert pool.ended(pool.submit(flat(BREAK), "moody")).status == "failed"
    running = pool.submit(flat(0.503), "moody", procedure={"name": "fixed", "n": 1_000_000}, radius=None)
    eventually(lambda: pool.record(running).status == "running", "the worker to begin")
    dead = pool.record(running).worker
    first.kill()
    second = pool.start()
    eventually(lambda: (now := pool.record(running)).status == "running" and now.worker != dead, "the next worker")
    assert api.client.post(f"{URL}/{running}/cancel").status_code in (200, 202)
    assert pool.ended(running).status == "canceled"
    second.terminate()
    second.wait(60)
    queued = [api.client.post(URL, json=body) for _ in range(4)]
    problem(api.client.post(URL, json=body), "queue_full")
    assert api.client.post(f"{URL}/{queued[0].json()['id']}/cancel").json()["status"] == "canceled"
    checks = {check["name"]: check["status"] for check in eventually(lambda: _ready(api, pool))["redis"]}
    assert checks.pop("fsync") == "unverified"
    assert set(checks.values()) == {"ok"}


def _ready(api: Api, pool: Pool) -> dict[str, Any]:
    pool.start()
    answer: dict[str, Any] = api.client.get("/readyz").json()
    return answer


def test_nothing_was_denied(used: set[str], admin: Any) -> None:
    assert used
    assert {entry["object"] for entry in admin.acl_log()} - OPTIONAL == set()


def test_every_command_that_the_sources_name_is_granted(admin: Any) -> None:
    known = {name.decode() for name in admin.command_list()}
    assert {"eval", "hmget", "zadd", "blpop", "wait"} <= named(known)
    assert named(known) - granted() == set()


def test_no_right_is_idle(used: set[str], admin: Any) -> None:
    known = {name.decode() for name in admin.command_list()}
    assert granted() - used - named(known) == set()


def test_the_user_reaches_nothing_else(server: ServerProcess, used: set[str]) -> None:
    client: Any = server.client(username="smoothcert", password="secret")
    for command in (("GET", "other"), ("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("PUBLISH", "other", "")):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
