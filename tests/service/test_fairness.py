"""Several keys share the service, and none of them can lock out the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.executor import MOST_OF_AN_OWNER, BoundedExecutor
from app.http.body import Bodies
from app.http.errors import ProblemError
from app.http.rate import RateLimit
from app.local.embedded import EmbeddedServer
from app.requests.intake import CERTIFICATE_BYTES
from app.settings import ApiSettings
from store.allowances import Allowance
from tests.service import database, eventually
from tests.support.api import Api, problem, question
from tests.support.owners import ALICE, BOB, ENTRIES, bearer
from tests.support.player import Player
from tests.support.pool import Pool, flat
from tests.support.zoo import make_zoo

URL = "/v1/certifications"
RATE = 4


@pytest.fixture(scope="module")
def shared(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A service with the keys of alice and bob, who has the right to priority."""
    keys = f"{ENTRIES[0]},{ENTRIES[1]}:high"
    url, folder = database(valkey.url, 6), tmp_path_factory.mktemp("shared")
    with Api(url, folder, api_keys=keys, queue_length=8, rate=RATE) as running:
        yield running


@pytest.fixture
def worker(shared: Api) -> Player:
    made = Player(shared.redis_url)
    made.redis.flushdb()
    made.announce()
    return made


def test_one_key_fills_only_its_part_of_the_queue(shared: Api, worker: Player) -> None:
    posts = [shared.client.post(URL, json=question(worker.ensemble), headers=bearer(ALICE)) for _ in range(3)]
    assert [answer.status_code for answer in posts] == [202, 202, 429]
    assert "2" in problem(posts[-1], "too_many_certifications").detail
    other = shared.client.post(URL, json=question(worker.ensemble), headers=bearer(BOB))
    assert (other.status_code, other.json()["queue_position"]) == (202, 1)
    assert [worker.take().owner for _ in range(3)] == ["alice", "bob", "alice"]


def test_priority_is_the_right_of_a_key(shared: Api, worker: Player) -> None:
    hurried = question(worker.ensemble, priority="high")
    assert "alice" in problem(shared.client.post(URL, json=hurried, headers=bearer(ALICE)), "not_permitted").detail
    for key, body in ((ALICE, question(worker.ensemble)), (BOB, hurried)):
        assert shared.client.post(URL, json=body, headers=bearer(key)).status_code == 202
    assert [worker.take().owner for _ in range(2)] == ["bob", "alice"]


def test_a_key_may_send_so_many_requests_to_all_processes_together(shared: Api, worker: Player, tmp_path: Path) -> None:
    """Mutant killed: an allowance of requests in each process."""
    with Api(shared.redis_url, tmp_path, api_keys=",".join(ENTRIES), rate=RATE) as other:
        began = time.monotonic()
        apis = (shared, other) * 30
        answers = [api.client.get("/v1/procedures", headers=bearer(ALICE)) for api in apis]
        allowed = [answer for answer in answers if answer.status_code == 200]
        assert 5 * RATE <= len(allowed) <= 5 * RATE + RATE * (time.monotonic() - began) + 2
        refused = next(answer for answer in answers if answer.status_code != 200)
        problem(refused, "too_many_requests")
        assert refused.headers["retry-after"] == "1"
        assert shared.client.get("/v1/procedures", headers=bearer(BOB)).status_code == 200
        eventually(lambda: other.client.get("/v1/procedures", headers=bearer(ALICE)).status_code == 200)


def test_requests_that_come_together_use_what_was_granted_to_the_first() -> None:
    """Otherwise fifty at once would spend the five hundred of a key."""

    class Granting:
        granted = 0

        async def spend(self, _: Allowance, __: str, wanted: int) -> tuple[int, float]:
            await asyncio.sleep(0)
            self.granted += wanted
            return wanted, 0.0

    async def ask(limit: RateLimit) -> None:
        await asyncio.gather(*(limit.spend("alice") for _ in range(50)))

    redis = Granting()
    asyncio.run(ask(RateLimit(redis, rate=100.0)))  # type: ignore[arg-type]
    assert redis.granted == 50


def test_computations_of_one_key_leave_room_to_others_and_take_turns_with_them() -> None:
    executor, gate, done = BoundedExecutor(), threading.Event(), list[str]()

    def work(name: str) -> None:
        gate.wait(60)
        done.append(name)

    async def ask() -> None:
        flood = [
            asyncio.create_task(executor.run(lambda: work("alice"), owner="alice")) for _ in range(MOST_OF_AN_OWNER)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="too_many_requests"):
            await executor.run(lambda: work("alice"), owner="alice")
        other = asyncio.create_task(executor.run(lambda: work("bob"), owner="bob"))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*flood, other)

    asyncio.run(ask())
    assert done == ["alice", "bob", *["alice"] * (MOST_OF_AN_OWNER - 1)]


def test_bodies_of_one_key_leave_room_to_others() -> None:
    bodies = Bodies(100)
    with bodies.share("alice") as one, bodies.share("alice") as two, bodies.share("bob") as other:
        one.take(45)
        two.take(5)
        for share in (one, two):
            with pytest.raises(ProblemError, match="too_many_requests"):
                share.take(1)
        other.take(50)
    with bodies.share("alice") as alone:
        alone.take(100)
    assert (bodies.held, bodies.held_by.total()) == (0, 0)


def test_requests_of_one_key_that_wait_leave_connections_to_others(shared: Api, worker: Player, tmp_path: Path) -> None:
    with (
        Api(shared.redis_url, tmp_path, api_keys=",".join(ENTRIES), rate=0, connections=8) as api,
        ExitStack() as stack,
    ):
        created = api.client.post(URL, json=question(worker.ensemble), headers=bearer(ALICE)).json()
        events = f"{URL}/{created['id']}/events"
        for _ in range(2):
            stream = stack.enter_context(api.client.stream("GET", events, headers=bearer(ALICE)))
            assert stream.status_code == 200
        refused = problem(api.client.get(URL, headers=bearer(ALICE)), "too_many_requests")
        assert "2 requests" in refused.detail
        assert api.client.get(URL, headers=bearer(BOB)).status_code == 200
        stack.close()
        eventually(lambda: api.client.get(URL, headers=bearer(ALICE)).status_code == 200, "the end of the streams")


def test_a_certification_without_a_deadline_gets_one(shared: Api, worker: Player) -> None:
    for fields, seconds in (({}, 86_400), ({"deadline_s": 50.0}, 50)):
        posted = shared.client.post(URL, json=question(worker.ensemble, **fields), headers=bearer(BOB))
        record = worker.record(posted.json()["id"])
        assert record.deadline_at - record.created_at == pytest.approx(seconds)


def test_images_that_never_fit_are_refused_for_good(valkey: EmbeddedServer, tmp_path: Path) -> None:
    url = database(valkey.url, 7)
    worker = Player(url, input_shape=(3, 600, 600))
    worker.announce()
    with Api(url, tmp_path, api_keys=ENTRIES[0], waiting_mb=1) as api:
        body = question(worker.ensemble, images=[{"dtype": "uint8", "shape": [3, 600, 600], "data": "AAAA"}])
        refusal = problem(api.client.post(URL, json=body, headers=bearer(ALICE)), "too_large")
        assert f"{1_080_000 + 128 + CERTIFICATE_BYTES:,}" in refusal.detail
        assert "1,000,000" in refusal.detail


def test_the_part_of_a_key_is_well_below_the_whole() -> None:
    alone, shared = ApiSettings().limits, ApiSettings(api_keys=",".join(ENTRIES)).limits
    assert (alone.active, alone.owner_bytes) == (alone.waiting, alone.bytes)
    assert (shared.active, shared.owner_bytes) == (shared.waiting / 4, shared.bytes / 4)
    assert shared.samples == 2 * ApiSettings().samples < alone.samples
    assert ApiSettings(api_keys=ENTRIES[0], active_certifications=7, active_mb=9, active_samples=8).limits.active == 7


def test_endless_certifications_of_one_key_leave_slots_to_others(valkey: EmbeddedServer, tmp_path: Path) -> None:
    pool = Pool(valkey, make_zoo(tmp_path / "zoo"), "fair", slots=4)
    endless = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 50_000_000}, "radius": None}
    try:
        pool.start()
        flood = [pool.submit(flat(0.5), owner="alice", **endless) for _ in range(10)]
        eventually(lambda: sum(pool.record(each).status == "running" for each in flood) == 2, "half of the slots")
        assert pool.ended(pool.submit(flat(0.9), owner="bob")).status == "succeeded"
        assert sum(pool.record(each).status == "running" for each in flood) == 2
    finally:
        pool.end()
