"""The list of a key's certifications, page by page, and how many a key may have."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx2
import pytest

from app.local.embedded import EmbeddedServer
from smoothcert.certification import CertificationPage
from store import keys
from tests.service import database
from tests.support.api import Api, problem
from tests.support.asking import URL, post, posted
from tests.support.player import Player

# --- list


@pytest.fixture(scope="module")
def apart(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A service with its own database, small limits, and no certifications of others."""
    limits = {"queue_length": 4, "active_certifications": 6}
    with Api(database(valkey.url, 1), tmp_path_factory.mktemp("apart"), **limits) as running:
        yield running


@pytest.fixture
def alone(apart: Api, valkey: EmbeddedServer) -> Player:
    """The only worker of that service."""
    made = Player(database(valkey.url, 1))
    made.redis.flushdb()
    made.announce()
    return made


def test_pages_hold_every_certification_once_the_newest_first(apart: Api, alone: Player) -> None:
    made = []
    for number in range(5):
        made.append(posted(apart.client, alone).id)
        if number < 3:
            alone.play()
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        answer = apart.client.get(URL, params={"limit": 2, "cursor": cursor})
        page = CertificationPage.model_validate_json(answer.content)
        assert len(page.data) <= 2
        seen += [each.id for each in page.data]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert seen == made[::-1]
    waiting = apart.client.get(URL, params={"status": "queued"}).json()
    assert [each["id"] for each in waiting["data"]] == [made[4], made[3]]
    assert [each["queue_position"] for each in waiting["data"]] == [1, 0]
    assert "certificates" not in waiting["data"][0]
    assert waiting["next_cursor"] is None
    assert apart.client.get(URL, params={"status": "failed"}).json() == {"data": [], "next_cursor": None}
    assert len(apart.client.get(URL, params={"limit": 5}).json()["data"]) == 5
    assert apart.client.get(URL, params={"limit": 5}).json()["next_cursor"] is None


def test_a_damaged_record_does_not_hide_the_others(apart: Api, alone: Player) -> None:
    first, damaged, last = (posted(apart.client, alone).id for _ in range(3))
    alone.redis.hset(keys.record(damaged), "images", "many")
    answer = apart.client.get(URL)
    assert answer.status_code == 200, answer.text
    assert [each["id"] for each in answer.json()["data"]] == [last, first]
    assert "many" in apart.log.read_text()


def test_a_worker_that_is_not_understood_hides_no_others(apart: Api, alone: Player) -> None:
    alone.redis.hset(keys.ENSEMBLES, "later/ensemble", '{"pool": "later", "seen_at": 1}')
    alone.redis.set(keys.worker("later"), '{"name": "later"}')
    alone.redis.zadd(keys.WORKERS, {"later": time.time() + 60})
    for path in ("/v1/ensembles", "/readyz", "/metrics"):
        answer = apart.client.get(path)
        assert answer.status_code == 200, answer.text
    assert apart.client.get(f"/v1/ensembles/{alone.ensemble}").status_code == 200
    assert "a worker's announcement cannot be read" in apart.log.read_text()


def test_a_page_goes_on_where_one_was_deleted(apart: Api, alone: Player) -> None:
    made = [posted(apart.client, alone).id for _ in range(3)]
    first = apart.client.get(URL, params={"limit": 1}).json()
    assert first["data"][0]["id"] == made[2]
    apart.client.post(f"{URL}/{made[2]}/cancel")
    apart.client.delete(f"{URL}/{made[2]}")
    second = apart.client.get(URL, params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert second["data"][0]["id"] == made[1]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"status": "done"}, "status"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "bmFuIHg"}, "cursor"),
        ({"cursor": "MWUrMzA4IHg"}, "cursor"),  # 1e+308 x
        ({"cursor": "LTEuMCB4"}, "cursor"),  # -1.0 x
        ({"cursor": "\u00e9"}, "cursor"),
    ],
)
def test_a_malformed_query_is_named(client: httpx2.Client, query: dict[str, str], named: str) -> None:
    refusal = problem(client.get(URL, params=query), "invalid_request")
    assert refusal.errors[0].field == named
    assert query[named][:5] in refusal.detail or "\\" in refusal.detail


# --- too many


def test_a_full_queue_says_when_to_come_back(apart: Api, alone: Player) -> None:
    client = apart.client
    for _ in range(4):
        posted(client, alone)
    answer = post(client, alone)
    assert "4" in problem(answer, "queue_full").detail
    assert answer.headers["retry-after"] == "10"  # nothing was measured yet
    assert len(alone.waiting()) == 4
    assert client.post(f"{URL}/{alone.waiting()[0]}/cancel").status_code == 200
    assert post(client, alone).status_code == 202


def test_those_who_are_sent_away_come_back_one_after_the_other(apart: Api, alone: Player) -> None:
    idle_since = time.time() - 3600  # quiet time does not count for the pace
    alone.redis.rpush(keys.finished(alone.pool), *(idle_since - 3 * i for i in range(20)))
    for _ in range(4):
        posted(apart.client, alone)
    seconds = [int(post(apart.client, alone).headers["retry-after"]) for _ in range(30)]
    assert seconds[0] == 3  # 20 endings in 57 seconds: one every three
    assert seconds == sorted(seconds)
    assert seconds[9] > 20
    assert seconds[-1] == 60  # however many clients were sent away


def test_an_owner_may_have_so_many_at_a_time(apart: Api, alone: Player) -> None:
    for _ in range(3):
        posted(apart.client, alone)
        alone.begin(alone.take())
    for _ in range(3):
        posted(apart.client, alone)
    answer = post(apart.client, alone)
    assert "6" in problem(answer, "too_many_certifications").detail
    assert int(answer.headers["retry-after"]) >= 1
    alone.redis.rpush(keys.finished(alone.pool), *(time.time() - 3 * i for i in range(20)))
    seconds = [int(post(apart.client, alone).headers["retry-after"]) for _ in range(10)]
    assert seconds == sorted(seconds)  # one after the other, as where the queue is full
    assert 1 <= seconds[0] < 20 < seconds[-1] <= 60
