"""While the memory of a server is full, new work is refused, and everything that was accepted goes on to its end."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import store
from app.local.embedded import EmbeddedServer
from app.redis.memory import SHARE
from store import keys
from store.checkpoints import SavedCheckpoint
from store.record import Record
from store.scripts.first_line import ALWAYS, READING, WITH_ROOM
from store.transitions import admission, cancellation, lease
from tests.service import eventually
from tests.support.api import Api, problem, question
from tests.support.player import Player
from tests.support.pool import Pool, flat
from tests.support.stored import MANY, accepted, begun, call, finishing, new, read
from tests.support.zoo import make_zoo

URL = "/v1/certifications"
LONG = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 20_000}, "radius": None}
SIZE = 100_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "server") as running:
        yield running


@pytest.fixture
def client(server: EmbeddedServer) -> Any:
    return redis.Redis.from_url(server.url)


def used(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def test_the_limit_binds(client: Any) -> None:
    """Mutant killed: a script without its first line, which Redis lets write after its first deletion."""
    most = used(client) + 3_000_000
    client.config_set("maxmemory", most)
    count = 0
    while (refused := refused_record(client)) is None and count < 200:
        count += 1
    assert 10 < count < 40
    assert used(client) < most + 2 * SIZE
    assert refused is not None
    assert not client.exists(keys.record(refused.id), keys.images(refused.id))


def refused_record(client: Any) -> Record | None:
    """The certification that the server refuses; None if it accepts one."""
    record = new()
    client.zadd(keys.active("me"), {"cert_gone": 1})  # the script deletes this entry
    try:
        call(client, admission.accept(record, bytes(SIZE), MANY, idempotency=None, high=False))
    except redis.exceptions.OutOfMemoryError:
        return record
    return None


def test_every_script_says_what_happens_where_memory_is_full() -> None:
    found = {}
    for _, name, is_package in pkgutil.walk_packages(store.__path__, "store."):
        if not is_package:
            module = importlib.import_module(name)
            tree = ast.parse(inspect.getsource(module))
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Call"]
            found |= {ast.unparse(each.args[0]): getattr(module, ast.unparse(each.args[0])) for each in calls}
    assert {"ACCEPT", "TAKE", "GUARDED", "FINISH", "SPEND", "CLAIM"} <= found.keys()
    first = {name: script.partition("\n")[0] + "\n" for name, script in found.items()}
    assert {name for name, line in first.items() if line == WITH_ROOM} == {"ACCEPT"}
    assert {line for name, line in first.items() if name != "ACCEPT"} == {ALWAYS, READING}


def test_what_was_accepted_ends_and_makes_room(client: Any) -> None:
    records = [accepted(client) for _ in range(3)]
    client.config_set("maxmemory", 1)
    for record in records[:2]:
        execution = begun(client, record)
        large = {0: SavedCheckpoint("x" * SIZE)}
        assert call(client, lease.save(read(client, record), execution, checkpoints=large))[0] == 1
        assert call(client, finishing(read(client, record), execution))[0] == 1
        assert call(client, cancellation.delete(read(client, record)))[0] == 1
    assert call(client, cancellation.cancel_waiting(read(client, records[2]), now=time.time(), ttl=60))[0] == 1
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        accepted(client)


def test_a_worker_that_starts_at_a_full_server_takes_up_what_a_dead_one_had(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Otherwise the server would stay full for ever, because images are freed only when they have been certified."""
    pool = Pool(server, make_zoo(tmp_path / "zoo"), "full")
    try:
        first = pool.start()
        running = pool.submit(flat(0.503), **LONG)
        eventually(lambda: pool.record(running).status == "running", "its beginning")
        first.kill()
        first.wait()
        waits = pool.submit(flat(0.9), "trivial")
        pool.redis.config_set("maxmemory", 1)
        pool.start()
        assert [pool.ended(each).status for each in (running, waits)] == ["succeeded"] * 2
        assert pool.record(running).burials == 1
        pool.processes[-1].terminate()
        assert pool.processes[-1].wait(60) == 0
        assert pool.workers() == set()
    finally:
        pool.end()


def test_the_api_refuses_new_work_before_the_server_is_full_and_goes_on_with_the_rest(
    server: EmbeddedServer, client: Any, tmp_path: Path
) -> None:
    worker = Player(server.url)
    worker.announce()
    with Api(server.url, tmp_path) as api:
        first, second, third = (api.client.post(URL, json=question(worker.ensemble)).json()["id"] for _ in range(3))
        key = {"Idempotency-Key": "before it was full"}
        fourth = api.client.post(URL, json=question(worker.ensemble), headers=key).json()["id"]
        for most in (int(used(client) / SHARE) - 1000, 1):  # nearly full, and full
            client.config_set("maxmemory", most)
            answer = eventually(lambda: refused(api, worker))
            assert "MB" in problem(answer, "storage_full").detail
            assert answer.headers["retry-after"] == "30"
            again = api.client.post(URL, json=question(worker.ensemble), headers=key)  # this is not new work
            assert (again.json()["id"], again.headers["idempotency-replayed"]) == (fourth, "true")
            new_key = {"Idempotency-Key": "after that"}
            problem(api.client.post(URL, json=question(worker.ensemble), headers=new_key), "storage_full")
        assert api.client.get(f"{URL}/{first}").status_code == 200
        worker.play()
        assert api.client.get(f"{URL}/{first}").json()["status"] == "succeeded"
        assert api.client.delete(f"{URL}/{first}").status_code == 204
        assert api.client.post(f"{URL}/{second}/cancel").status_code == 200
        client.config_set("maxmemory", 0)
        assert eventually(lambda: api.client.post(URL, json=question(worker.ensemble)).status_code == 202)
        assert worker.waiting()[0] == third
        assert "Traceback" not in api.log.read_text()


def refused(api: Api, worker: Player) -> Any:
    """The response to a submission, once it is refused; the API measures the memory every second."""
    answer = api.client.post(URL, json=question(worker.ensemble))
    return answer if answer.status_code != 202 else None
