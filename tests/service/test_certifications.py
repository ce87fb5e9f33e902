"""Certifications over HTTP, with a worker that is played by hand: so every order of events can be had at will."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from app import events
from app.embedded import EmbeddedServer
from app.queue import Queue
from smoothcert.certification import Certification, CertificationPage, CertificationSummary, Progress
from smoothcert.problem import Failure
from store import keys, transitions
from store.transitions import Limits
from tests.service.api import Api, encoded, npy, picture, problem, question, tensor, text
from tests.service.player import CLASSES, SHAPE, SIGMA, Player, certificate

URL = "/v1/certifications"


def post(
    client: httpx.Client, player: Player, *, headers: dict[str, str] | None = None, **asked: Any
) -> httpx.Response:
    return client.post(URL, json=question(player.ensemble, **asked), headers=headers)


def posted(client: httpx.Client, player: Player, **asked: Any) -> Certification:
    answer = post(client, player, **asked)
    assert answer.status_code == 202, answer.text
    return Certification.model_validate_json(answer.content)


def got(client: httpx.Client, certification: str) -> Certification:
    answer = client.get(f"{URL}/{certification}")
    assert answer.status_code == 200, answer.text
    return Certification.model_validate_json(answer.content)


def in_a_moment(act: Any) -> threading.Thread:
    """What a worker does while the client waits."""
    thread = threading.Timer(0.2, act)
    thread.start()
    return thread


# --- post


def test_a_request_is_accepted_and_can_be_found(client: httpx.Client, player: Player) -> None:
    answer = post(client, player)
    assert answer.status_code == 202
    said = Certification.model_validate_json(answer.content)
    assert answer.headers["location"] == f"{URL}/{said.id}"
    assert int(answer.headers["retry-after"]) >= 1
    assert (said.status, said.queue_position, said.certificates) == ("queued", 0, ())
    assert said.progress == Progress(images_done=0, images_total=1, samples=0, evaluations=0)
    assert got(client, said.id) == said
    assert player.waiting() == [said.id]


def test_what_was_left_open_is_filled_in(client: httpx.Client, player: Player) -> None:
    said = posted(client, player, metadata={"who": "me\n"}, labels=[2], deadline_s=100)
    assert (said.request.ensemble, said.request.sigma, said.request.voting) == (player.ensemble, SIGMA, "soft")
    assert (said.request.metadata, said.request.labels) == ({"who": "me\n"}, (2,))
    record = player.record(said.id)
    assert (record.digest, record.pool, record.images) == (player.card.digest, player.pool, 1)
    assert record.deadline_at == pytest.approx(record.created_at + 100)
    assert len(record.seed) == 32


def test_two_requests_never_share_a_seed(client: httpx.Client, player: Player) -> None:
    assert player.record(posted(client, player).id).seed != player.record(posted(client, player).id).seed


def test_a_wait_ends_with_the_certification(client: httpx.Client, player: Player) -> None:
    worker = in_a_moment(player.play)
    started = time.monotonic()
    answer = post(client, player, headers={"Prefer": "respond-async, wait=20"})
    assert time.monotonic() - started < 10
    worker.join()
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=20")
    assert "retry-after" not in answer.headers
    said = Certification.model_validate_json(answer.content)
    assert said.status == "succeeded"
    assert said.started_at
    assert said.finished_at
    assert said.created_at <= said.started_at <= said.finished_at < said.expires_at
    (proof,) = said.certificates
    assert (proof.class_name, proof.target_radius) == (CLASSES[1], 0.25)
    assert client.post("/v1/verify", content=proof.to_json(), headers={"Content-Type": "application/json"}).json() == {
        "consistent": True,
        "problems": [],
    }


def test_a_wait_that_is_over_gives_what_is_known(client: httpx.Client, player: Player) -> None:
    started = time.monotonic()
    answer = post(client, player, headers={"Prefer": "wait=1"})
    assert 0.9 < time.monotonic() - started < 5
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=1")


@pytest.mark.parametrize(
    "prefer", ["wait", "wait=", "wait=-1", "wait=1.5", "wait=ten", "handling=strict", "", "await=9"]
)
def test_a_malformed_preference_is_passed_over(client: httpx.Client, player: Player, prefer: str) -> None:
    answer = post(client, player, headers={"Prefer": prefer})
    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


def test_nobody_waits_longer_than_a_minute(client: httpx.Client, player: Player) -> None:
    worker = in_a_moment(player.play)
    answer = post(client, player, headers={"Prefer": 'WAIT = "3600"; foo'})
    worker.join()
    assert answer.headers["preference-applied"] == "wait=60"


def test_the_three_ways_to_post_store_the_same_pixels(client: httpx.Client, player: Player) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, *SHAPE), np.uint8)
    asked = question(player.ensemble)
    del asked["images"]
    as_json = client.post(URL, json={**asked, "images": [tensor(each) for each in pixels]})
    last = [tensor(np.ascontiguousarray(each.transpose(1, 2, 0))) for each in pixels]
    as_last = client.post(URL, json={**asked, "images": last})
    files = [encoded(Image.fromarray(np.ascontiguousarray(each.transpose(1, 2, 0)))) for each in pixels]
    as_base64 = client.post(URL, json={**asked, "images": [text(file) for file in files]})
    as_form = client.post(URL, data={"request": json.dumps(asked)}, files=[("images", file) for file in files])
    part = ("request.json", json.dumps(asked), "application/json")
    as_parts = client.post(URL, files=[("request", part), *(("images", ("x.png", file)) for file in files)])
    query = {"request": json.dumps(asked)}
    npy_type = {"Content-Type": "application/x-npy"}
    as_npy = client.post(URL, params=query, content=npy(pixels), headers=npy_type)
    as_nhwc = client.post(URL, params=query, content=npy(pixels.transpose(0, 2, 3, 1)), headers=npy_type)
    fortran = client.post(URL, params=query, content=npy(np.asfortranarray(pixels)), headers=npy_type)
    for answer in (as_json, as_last, as_base64, as_form, as_parts, as_npy, as_nhwc, fortran):
        assert answer.status_code == 202, answer.text
        stored = player.images(answer.json()["id"])
        assert stored.dtype == np.uint8
        assert np.array_equal(stored, pixels)


def test_floats_stay_floats_and_a_mixture_becomes_float(client: httpx.Client, player: Player) -> None:
    grey = np.full(SHAPE, 51, np.uint8)
    for exact in (np.full(SHAPE, 0.1), np.full(SHAPE, 0.1, np.float32)):
        said = posted(client, player, images=[tensor(grey), tensor(exact)])
        stored = player.images(said.id)
        assert stored.dtype == np.float32
        assert np.array_equal(stored[0], np.full(SHAPE, np.float32(51) / np.float32(255)))
        assert np.array_equal(stored[1], np.full(SHAPE, np.float32(0.1)))


def test_high_priority_goes_before_all_that_wait(client: httpx.Client, player: Player) -> None:
    first, second = posted(client, player), posted(client, player)
    assert (first.queue_position, second.queue_position) == (0, 1)
    urgent = posted(client, player, priority="high")
    assert urgent.queue_position == 0
    assert player.waiting() == [urgent.id, first.id, second.id]
    assert got(client, second.id).queue_position == 2


def test_the_only_ensemble_need_not_be_named(valkey: EmbeddedServer, api: Api, player: Player) -> None:
    asked = question(player.ensemble)
    del asked["ensemble"]
    other = Player(valkey.url)
    other.announce()
    try:
        time.sleep(1.1)  # ensembles are taken to be those of a second ago
        said = problem(api.client.post(URL, json=asked), "invalid_request")
        assert player.ensemble in said.detail
        assert other.ensemble in said.detail
    finally:
        other.forget()
    time.sleep(1.1)
    known = [each["name"] for each in api.client.get("/v1/ensembles").json()["data"]]
    assert known == [player.ensemble], "another test has left an ensemble"
    assert api.client.post(URL, json=asked).json()["ensemble"] == player.ensemble


def test_an_ensemble_without_a_worker_is_waited_for(client: httpx.Client, valkey: EmbeddedServer) -> None:
    player = Player(valkey.url)
    player.announce(at=time.time() - 1800, ttl=60)
    assert posted(client, player).status == "queued"
    served = client.get(f"/v1/ensembles/{player.ensemble}").json()
    assert (served["ready"], served["workers"]) == (False, 0)
    player.forget()


def test_an_ensemble_that_nobody_has_served_for_long_is_unknown(client: httpx.Client, valkey: EmbeddedServer) -> None:
    player = Player(valkey.url)
    player.announce(at=time.time() - 3700, ttl=60)
    assert player.ensemble in problem(post(client, player), "unknown_ensemble").detail
    player.forget()


# --- idempotency


def test_a_key_that_is_sent_again_gives_the_same_certification(client: httpx.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"once {player.name}"}
    first, second = post(client, player, headers=headers), post(client, player, headers=headers)
    assert first.json()["id"] == second.json()["id"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.status_code == 202
    assert player.waiting() == [first.json()["id"]]
    player.play()
    third = post(client, player, headers=headers)
    assert (third.status_code, third.json()["status"]) == (200, "succeeded")


def test_a_form_that_is_sent_again_may_have_another_boundary(client: httpx.Client, player: Player) -> None:
    asked = question(player.ensemble)
    del asked["images"]
    form: dict[str, Any] = {"data": {"request": json.dumps(asked)}, "files": [("images", picture())]}
    headers = {"Idempotency-Key": f"form {player.name}"}
    first, second = client.post(URL, **form, headers=headers), client.post(URL, **form, headers=headers)
    assert first.request.headers["content-type"] != second.request.headers["content-type"]
    assert first.json()["id"] == second.json()["id"]


def test_a_key_that_was_used_for_something_else_is_a_conflict(client: httpx.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"twice {player.name}"}
    dark, light = tensor(np.zeros(SHAPE, np.uint8)), tensor(np.ones(SHAPE, np.uint8))
    assert post(client, player, headers=headers, images=[dark]).status_code == 202
    problem(post(client, player, headers=headers, images=[dark], alpha=0.01), "idempotency_conflict")
    problem(post(client, player, headers=headers, images=[light]), "idempotency_conflict")
    problem(post(client, player, headers=headers, images=[dark, dark]), "idempotency_conflict")
    assert len(player.waiting()) == 1


def test_after_its_certification_is_deleted_a_key_is_free(client: httpx.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"again {player.name}"}
    first = post(client, player, headers=headers).json()["id"]
    player.play()
    assert client.delete(f"{URL}/{first}").status_code == 204
    second = post(client, player, headers=headers)
    assert second.json()["id"] != first
    assert "idempotency-replayed" not in second.headers


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
def test_a_key_must_be_printable_and_short(client: httpx.Client, player: Player, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    answer = client.post(URL, json=question(player.ensemble), headers=headers)
    assert "Idempotency-Key" in problem(answer, "invalid_request").detail
    assert player.waiting() == []


# --- get


def test_progress_and_certificates_are_told_as_they_come(client: httpx.Client, player: Player) -> None:
    said = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    assert got(client, said.id).status == "running"
    player.save(record, {2: certificate(record, 2)})
    seen = got(client, said.id)
    assert [each.index for each in seen.certificates] == [2]
    assert seen.progress.images_done == 1
    player.save(player.record(said.id), {0: certificate(record, 0)})
    assert [each.index for each in got(client, said.id).certificates] == [0, 2]


def test_a_failure_is_told(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    record = player.begin(player.take())
    error = Failure(code="engine_failed", detail='with "quotes"\n')
    player.finish(record, {}, status="failed", error=error)
    seen = got(client, said.id)
    assert (seen.status, seen.error) == ("failed", error)


def test_a_get_can_wait_too(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    worker = in_a_moment(player.play)
    answer = client.get(f"{URL}/{said.id}", headers={"Prefer": "wait=20"})
    worker.join()
    assert (answer.json()["status"], answer.headers["preference-applied"]) == ("succeeded", "wait=20")


def test_a_lost_message_delays_a_wait_by_a_second_at_most(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)

    def end_in_silence() -> None:
        player.redis.hset(keys.record(said.id), mapping={"status": "succeeded", "finished_at": time.time()})

    worker = in_a_moment(end_in_silence)
    started = time.monotonic()
    assert client.get(f"{URL}/{said.id}", headers={"Prefer": "wait=20"}).json()["status"] == "succeeded"
    assert time.monotonic() - started < 5
    worker.join()


def test_a_certification_that_is_deleted_while_one_waits_is_gone(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    record = player.begin(player.take())

    def vanish() -> None:
        player.redis.delete(keys.record(record.id))
        player.redis.publish(keys.CHANGED, f"{record.id} {keys.DELETED}")

    worker = in_a_moment(vanish)
    problem(client.get(f"{URL}/{said.id}", headers={"Prefer": "wait=20"}), "unknown_certification")
    worker.join()


@pytest.mark.parametrize("name", ["cert_0", "nothing", "%2e%2e", "*", "a" * 500, "%00", "caf%C3%A9", "%ff"])
def test_an_unknown_certification_is_not_found(client: httpx.Client, name: str) -> None:
    for answer in (
        client.get(f"{URL}/{name}"),
        client.get(f"{URL}/{name}/events"),
        client.post(f"{URL}/{name}/cancel"),
        client.delete(f"{URL}/{name}"),
    ):
        problem(answer, "unknown_certification")


def test_what_has_expired_is_gone_but_not_forgotten(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    record = player.begin(player.take())
    player.finish(record, now=time.time() - 100, ttl=99)
    problem(client.get(f"{URL}/{said.id}"), "expired")
    problem(client.get(f"{URL}/{said.id}/events"), "expired")
    problem(client.post(f"{URL}/{said.id}/cancel"), "already_ended")
    (listed,) = [each for each in client.get(URL).json()["data"] if each["id"] == said.id]
    assert listed["status"] == "expired"
    assert client.delete(f"{URL}/{said.id}").status_code == 204
    problem(client.get(f"{URL}/{said.id}"), "unknown_certification")


# --- cancel and delete


def test_what_waits_is_canceled_at_once(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    answer = client.post(f"{URL}/{said.id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
    assert player.waiting() == []
    assert player.redis.exists(keys.images(said.id)) == 0
    problem(client.post(f"{URL}/{said.id}/cancel"), "already_ended")


def test_what_runs_is_asked_to_stop(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    record = player.begin(player.take())
    heard = player.redis.pubsub()
    heard.subscribe(f"rq:pubsub:{player.name}")
    heard.get_message(timeout=5)
    for _ in range(2):
        answer = client.post(f"{URL}/{said.id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "canceling")
    assert json.loads(heard.get_message(timeout=5)["data"]) == {"command": "stop-job", "job_id": said.id}
    assert heard.get_message(timeout=0.2) is None  # told once
    heard.close()
    player.finish(record, {}, status="canceled")
    problem(client.post(f"{URL}/{said.id}/cancel"), "already_ended")
    assert got(client, said.id).status == "canceled"


def test_a_cancel_that_comes_between_taking_and_beginning_wins(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    record = player.take()
    assert client.post(f"{URL}/{said.id}/cancel").json()["status"] == "canceled"
    _, call = transitions.begin(record, player.name, now=time.time(), ttl=60)
    assert player.redis.eval(*call.arguments)[0] == 0


def test_a_cancel_in_the_midst_of_changes_ends_in_one_of_two_ways(client: httpx.Client, player: Player) -> None:
    """The worker begins at the very time: whoever comes first, the other sees it."""
    for _ in range(20):
        said = posted(client, player)
        record = player.take()
        _, call = transitions.begin(record, player.name, now=time.time(), ttl=60)
        with ThreadPoolExecutor(1) as worker:
            begun = worker.submit(player.redis.eval, *call.arguments)
            answer = client.post(f"{URL}/{said.id}/cancel")
        expected = (202, "canceling") if begun.result()[0] else (200, "canceled")
        assert (answer.status_code, answer.json()["status"]) == expected


def test_only_what_has_ended_can_be_deleted(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    assert "queued" in problem(client.delete(f"{URL}/{said.id}"), "still_running").detail
    record = player.begin(player.take())
    assert "running" in problem(client.delete(f"{URL}/{said.id}"), "still_running").detail
    player.finish(record)
    answer = client.delete(f"{URL}/{said.id}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert list(player.redis.scan_iter(f"*{said.id}*")) == []
    problem(client.delete(f"{URL}/{said.id}"), "unknown_certification")


# --- list


@pytest.fixture(scope="module")
def apart(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A service with a database of its own, small limits, and nobody else's certifications."""
    limits = {"queue_length": 4, "active_certifications": 6}
    with Api(valkey.url.replace("db=0", "db=1"), tmp_path_factory.mktemp("apart"), **limits) as running:
        yield running


@pytest.fixture
def alone(apart: Api, valkey: EmbeddedServer) -> Player:
    """The only worker of that service."""
    made = Player(valkey.url.replace("db=0", "db=1"))
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
        ({"cursor": "\u00e9"}, "cursor"),
    ],
)
def test_a_malformed_query_is_named(client: httpx.Client, query: dict[str, str], named: str) -> None:
    said = problem(client.get(URL, params=query), "invalid_request")
    assert said.errors[0].field == named
    assert query[named][:5] in said.detail or "\\" in said.detail


# --- too many


def test_a_full_queue_says_when_to_come_back(apart: Api, alone: Player) -> None:
    for _ in range(4):
        posted(apart.client, alone)
    answer = post(apart.client, alone)
    assert "4" in problem(answer, "queue_full").detail
    assert answer.headers["retry-after"] == "10"  # nothing was measured
    idle_since = time.time() - 3600  # quiet time is no pace
    alone.redis.rpush(keys.finished(alone.pool), *(idle_since - 3 * i for i in range(20)))
    answer = post(apart.client, alone)
    problem(answer, "queue_full")
    assert int(answer.headers["retry-after"]) == 3  # 20 endings in 57 seconds: one in three
    assert len(alone.waiting()) == 4
    client = apart.client
    assert client.post(f"{URL}/{alone.waiting()[0]}/cancel").status_code == 200
    assert post(client, alone).status_code == 202


def test_an_owner_may_have_so_many_at_a_time(apart: Api, alone: Player) -> None:
    for _ in range(3):
        posted(apart.client, alone)
        alone.begin(alone.take())
    for _ in range(3):
        posted(apart.client, alone)
    answer = post(apart.client, alone)
    assert "6" in problem(answer, "too_many_certifications").detail
    assert int(answer.headers["retry-after"]) >= 1


# --- events


class Listener:
    """The events of a stream, in a thread."""

    def __init__(self, client: httpx.Client, certification: str, **headers: str) -> None:
        self.events: list[tuple[str, str, Any]] = []
        self.status = 0
        self._client, self._url = client, f"{URL}/{certification}/events"
        self._thread = threading.Thread(target=self._listen, args=(headers,))
        self._thread.start()

    def _listen(self, headers: dict[str, str]) -> None:
        with self._client.stream("GET", self._url, headers=headers) as answer:
            self.status = answer.status_code
            assert answer.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and fields:
                    self.events.append((fields["event"], fields["id"], json.loads(fields["data"])))
                    fields = {}

    def until(self, count: int, kind: str = "") -> list[tuple[str, str, Any]]:
        """The events of a kind, once there are so many."""
        deadline = time.monotonic() + 15
        while len(found := [event for event in self.events if kind in ("", event[0])]) < count:
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)
        return found

    def to_the_end(self) -> list[tuple[str, str, Any]]:
        self._thread.join(15)
        assert not self._thread.is_alive()
        return self.events


def test_events_tell_the_whole_story(client: httpx.Client, player: Player) -> None:
    said = posted(client, player, images=[text(picture())] * 3)
    listener = Listener(client, said.id)
    ((_, _, first),) = listener.until(1, "status")
    assert CertificationSummary.model_validate(first).status == "queued"
    record = player.begin(player.take())
    listener.until(2, "status")
    player.save(record, {2: certificate(record, 2)})
    listener.until(1, "certificate")
    player.save(player.record(said.id), {1: certificate(record, 1)})
    listener.until(2, "certificate")
    player.finish(player.record(said.id), {0: certificate(record, 0)})
    told = listener.to_the_end()
    assert [event["status"] for kind, _, event in told if kind == "status"] == ["queued", "running"]
    certificates = [(id_, event["index"]) for kind, id_, event in told if kind == "certificate"]
    assert certificates == [("1", 2), ("2", 1), ("3", 0)]
    progress = [Progress.model_validate(event).images_done for kind, _, event in told if kind == "progress"]
    assert progress == [0, 1, 2, 3]
    kind, id_, last = told[-1]
    assert (kind, id_) == ("completed", "end")
    assert CertificationSummary.model_validate(last).status == "succeeded"
    assert "certificates" not in last


@pytest.mark.parametrize("received", [0, 1, 2, 3])
def test_a_stream_goes_on_exactly_where_it_broke_off(client: httpx.Client, player: Player, received: int) -> None:
    said = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    for index in (1, 2):
        player.save(player.record(said.id), {index: certificate(record, index)})
    player.finish(player.record(said.id), {0: certificate(record, 0)})
    told = Listener(client, said.id, **{"Last-Event-ID": str(received)}).to_the_end()
    indices = [event["index"] for kind, _, event in told if kind == "certificate"]
    assert indices == [1, 2, 0][received:]
    assert told[-1][0] == "completed"


def test_a_certificate_that_is_saved_again_keeps_its_place(client: httpx.Client, player: Player) -> None:
    """A worker that got no reply sends the same call again, and ids that were given out must stay true."""
    said = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    for index in (2, 1, 2):
        player.save(player.record(said.id), {index: certificate(record, index)})
    player.finish(player.record(said.id), {0: certificate(record, 0)})
    told = Listener(client, said.id).to_the_end()
    assert [event["index"] for kind, _, event in told if kind == "certificate"] == [2, 1, 0]


def test_after_the_end_there_is_nothing_to_follow(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    player.play()
    answer = client.get(f"{URL}/{said.id}/events", headers={"Last-Event-ID": "end"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_stream_in_which_nothing_happens_says_that_it_lives(
    valkey: EmbeddedServer, client: httpx.Client, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.1)
    certification = posted(client, player).id

    async def first(count: int) -> list[bytes]:
        queue = Queue(valkey.url, Limits(1, 1), result_ttl=1)
        async with queue.listening():
            stream = events.stream(queue, certification, told=0)
            return [await anext(stream) for _ in range(count)]

    status, progress, *rest = asyncio.run(first(4))
    assert status.startswith(b"event: status\nid: 0\ndata: {")
    assert progress.startswith(b"event: progress\n")
    assert rest == [b": still here\n\n"] * 2


def test_a_stream_ends_where_its_certification_is_deleted(client: httpx.Client, player: Player) -> None:
    said = posted(client, player)
    listener = Listener(client, said.id)
    listener.until(1)
    player.redis.delete(keys.record(said.id))
    assert listener.to_the_end()[-1][0] != "completed"


@pytest.mark.parametrize("id_", ["-1", "one", "1.0", "\u0663", "9" * 30, "END"])
def test_a_malformed_last_event_id_is_refused(client: httpx.Client, player: Player, id_: str) -> None:
    said = posted(client, player)
    answer = client.get(f"{URL}/{said.id}/events", headers={b"Last-Event-ID": id_.encode()})
    assert "Last-Event-ID" in problem(answer, "invalid_request").detail


@pytest.mark.parametrize(
    ("accept", "fits"),
    [
        ("text/event-stream", True),
        ("application/json, text/*;q=0.1", True),
        ("*/*", True),
        ("*/*;q=0, text/event-stream", True),
        ("application/json", False),
        ("text/event-stream;q=0, */*", False),
        ("text/*;q=0.0, */*", False),
        ("*/*;q=0", False),
    ],
)
def test_accept_decides_whether_there_is_a_stream(
    client: httpx.Client, player: Player, accept: str, fits: bool
) -> None:
    said = posted(client, player)
    player.play()
    answer = client.get(f"{URL}/{said.id}/events", headers={"Accept": accept})
    if fits:
        assert answer.status_code == 200
    else:
        assert accept in problem(answer, "not_acceptable").detail
