"""Certifications over HTTP, with a worker that is played by hand: so every order of events can be had at will."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import numpy as np
import pytest
from PIL import Image

from app.local.embedded import EmbeddedServer
from smoothcert.certification import Certification, Progress
from smoothcert.noise import RoundedGaussian
from smoothcert.problem import Failure
from store import keys
from store.transitions import lease
from tests.service import PATIENCE_S, database
from tests.support.api import Api, encoded, npy, picture, problem, question, tensor, text
from tests.support.asking import URL, got, in_a_moment, post, posted
from tests.support.player import CLASSES, SHAPE, SIGMA, Player, certificate

# --- post


def test_a_request_is_accepted_and_can_be_found(client: httpx2.Client, player: Player) -> None:
    answer = post(client, player)
    assert answer.status_code == 202
    certification = Certification.model_validate_json(answer.content)
    assert answer.headers["location"] == f"{URL}/{certification.id}"
    assert int(answer.headers["retry-after"]) >= 1
    assert (certification.status, certification.queue_position, certification.certificates) == ("queued", 0, ())
    assert certification.progress == Progress(images_done=0, images_total=1, samples=0, evaluations=0)
    assert got(client, certification.id) == certification
    assert player.waiting() == [certification.id]


def test_what_was_left_open_is_filled_in(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player, metadata={"who": "me\n"}, labels=[2], deadline_s=100)
    assert (certification.request.ensemble, certification.request.noise, certification.request.voting) == (
        player.ensemble,
        RoundedGaussian(SIGMA),
        "soft",
    )
    assert (certification.request.metadata, certification.request.labels) == ({"who": "me\n"}, (2,))
    record = player.record(certification.id)
    assert (record.digest, record.pool, record.images) == (player.card.digest, player.pool, 1)
    assert record.deadline_at == pytest.approx(record.created_at + 100)
    assert len(record.seed) == 32


def test_two_requests_never_share_a_seed(client: httpx2.Client, player: Player) -> None:
    assert player.record(posted(client, player).id).seed != player.record(posted(client, player).id).seed


def test_a_wait_ends_with_the_certification(client: httpx2.Client, player: Player) -> None:
    worker = in_a_moment(player.play)
    started = time.monotonic()
    answer = post(client, player, headers={"Prefer": "respond-async, wait=60"})
    assert time.monotonic() - started < 30
    worker.join()
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=60")
    assert "retry-after" not in answer.headers
    certification = Certification.model_validate_json(answer.content)
    assert certification.status == "succeeded"
    assert certification.started_at
    assert certification.finished_at
    assert certification.created_at <= certification.started_at <= certification.finished_at < certification.expires_at
    (proof,) = certification.certificates
    assert (proof.class_name, proof.target_radius) == (CLASSES[1], 0.25)
    headers = {"Content-Type": "application/json"}
    verified = client.post("/v1/verify", content=proof.to_json(), headers=headers).json()
    assert (verified["consistent"], verified["problems"]) == (True, [])


def test_a_wait_that_is_over_gives_what_is_known(client: httpx2.Client, player: Player) -> None:
    started = time.monotonic()
    answer = post(client, player, headers={"Prefer": "wait=1"})
    assert time.monotonic() - started > 0.9
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=1")


@pytest.mark.parametrize(
    "prefer", ["wait", "wait=", "wait=-1", "wait=1.5", "wait=ten", "handling=strict", "", "await=9"]
)
def test_a_malformed_preference_is_passed_over(client: httpx2.Client, player: Player, prefer: str) -> None:
    answer = post(client, player, headers={"Prefer": prefer})
    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


def test_nobody_waits_longer_than_a_minute(client: httpx2.Client, player: Player) -> None:
    worker = in_a_moment(player.play)
    answer = post(client, player, headers={"Prefer": 'WAIT = "3600"; foo'})
    worker.join()
    assert answer.headers["preference-applied"] == "wait=60"


def test_the_three_ways_to_post_store_the_same_pixels(client: httpx2.Client, player: Player) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, *SHAPE), np.uint8)
    payload = question(player.ensemble)
    del payload["images"]
    as_json = client.post(URL, json={**payload, "images": [tensor(each) for each in pixels]})
    last = [tensor(np.ascontiguousarray(each.transpose(1, 2, 0))) for each in pixels]
    as_last = client.post(URL, json={**payload, "images": last})
    files = [encoded(Image.fromarray(np.ascontiguousarray(each.transpose(1, 2, 0)))) for each in pixels]
    as_base64 = client.post(URL, json={**payload, "images": [text(file) for file in files]})
    as_form = client.post(URL, data={"request": json.dumps(payload)}, files=[("images", file) for file in files])
    part = ("request.json", json.dumps(payload), "application/json")
    as_parts = client.post(URL, files=[("request", part), *(("images", ("x.png", file)) for file in files)])
    query = {"request": json.dumps(payload)}
    npy_type = {"Content-Type": "application/x-npy"}
    as_npy = client.post(URL, params=query, content=npy(pixels), headers=npy_type)
    as_nhwc = client.post(URL, params=query, content=npy(pixels.transpose(0, 2, 3, 1)), headers=npy_type)
    fortran = client.post(URL, params=query, content=npy(np.asfortranarray(pixels)), headers=npy_type)
    for answer in (as_json, as_last, as_base64, as_form, as_parts, as_npy, as_nhwc, fortran):
        assert answer.status_code == 202, answer.text
        stored = player.images(answer.json()["id"])
        assert stored.dtype == np.uint8
        assert np.array_equal(stored, pixels)


def test_floats_stay_floats_and_a_mixture_becomes_float(client: httpx2.Client, player: Player) -> None:
    grey = np.full(SHAPE, 51, np.uint8)
    for exact in (np.full(SHAPE, 0.1), np.full(SHAPE, 0.1, np.float32)):
        certification = posted(client, player, images=[tensor(grey), tensor(exact)])
        stored = player.images(certification.id)
        assert stored.dtype == np.float32
        assert np.array_equal(stored[0], np.full(SHAPE, np.float32(51) / np.float32(255)))
        assert np.array_equal(stored[1], np.full(SHAPE, np.float32(0.1)))


def test_high_priority_goes_before_all_that_wait(client: httpx2.Client, player: Player) -> None:
    first, second = posted(client, player), posted(client, player)
    assert (first.queue_position, second.queue_position) == (0, 1)
    urgent = posted(client, player, priority="high")
    assert urgent.queue_position == 0
    assert player.waiting() == [urgent.id, first.id, second.id]
    assert got(client, second.id).queue_position == 2


def test_the_only_ensemble_need_not_be_named(valkey: EmbeddedServer, tmp_path: Path) -> None:
    url = database(valkey.url, 4)
    one, other = Player(url), Player(url)
    payload = question(one.ensemble)
    del payload["ensemble"]
    with Api(url, tmp_path) as api:
        for each in (one, other):
            each.announce()
        refusal = problem(api.client.post(URL, json=payload), "invalid_request")
        assert one.ensemble in refusal.detail
        assert other.ensemble in refusal.detail
        other.forget()
        time.sleep(1.1)  # ensembles are taken to be those of a second ago
        assert api.client.post(URL, json=payload).json()["ensemble"] == one.ensemble


def test_an_ensemble_without_a_worker_is_waited_for(client: httpx2.Client, player: Player) -> None:
    player.announce(at=time.time() - 1800, ttl=60)
    assert posted(client, player).status == "queued"
    served = client.get(f"/v1/ensembles/{player.ensemble}").json()
    assert (served["ready"], served["workers"]) == (False, 0)


def test_an_ensemble_that_nobody_has_served_for_long_is_unknown(client: httpx2.Client, player: Player) -> None:
    player.announce(at=time.time() - 3700, ttl=60)
    assert player.ensemble in problem(post(client, player), "unknown_ensemble").detail


# --- get


def test_progress_and_certificates_are_told_as_they_come(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    assert got(client, certification.id).status == "running"
    player.save(record, {2: certificate(record, 2)})
    seen = got(client, certification.id)
    assert [each.index for each in seen.certificates] == [2]
    assert seen.progress.images_done == 1
    player.save(player.record(certification.id), {0: certificate(record, 0)})
    assert [each.index for each in got(client, certification.id).certificates] == [0, 2]


def test_a_failure_is_told(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    record = player.begin(player.take())
    error = Failure(code="engine_failed", detail='with "quotes"\n')
    player.finish(record, {}, status="failed", error=error)
    seen = got(client, certification.id)
    assert (seen.status, seen.error) == ("failed", error)


def test_a_get_can_wait_too(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    worker = in_a_moment(player.play)
    answer = client.get(f"{URL}/{certification.id}", headers={"Prefer": "wait=20"})
    worker.join()
    assert (answer.json()["status"], answer.headers["preference-applied"]) == ("succeeded", "wait=20")


def test_a_lost_message_does_not_prolong_a_wait_to_its_end(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)

    def end_in_silence() -> None:
        player.redis.hset(keys.record(certification.id), mapping={"status": "succeeded", "finished_at": time.time()})

    worker = in_a_moment(end_in_silence)
    started = time.monotonic()
    assert client.get(f"{URL}/{certification.id}", headers={"Prefer": "wait=60"}).json()["status"] == "succeeded"
    assert time.monotonic() - started < 30
    worker.join()


def test_a_certification_that_is_deleted_while_one_waits_is_gone(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    record = player.begin(player.take())

    def vanish() -> None:
        player.redis.delete(keys.record(record.id))
        player.redis.publish(keys.CHANGED, f"{record.id} {keys.DELETED}")

    worker = in_a_moment(vanish)
    problem(client.get(f"{URL}/{certification.id}", headers={"Prefer": "wait=20"}), "unknown_certification")
    worker.join()


@pytest.mark.parametrize("name", ["cert_0", "nothing", "%2e%2e", "*", "a" * 500, "%00", "caf%C3%A9", "%ff"])
def test_an_unknown_certification_is_not_found(client: httpx2.Client, name: str) -> None:
    for answer in (
        client.get(f"{URL}/{name}"),
        client.get(f"{URL}/{name}/events"),
        client.post(f"{URL}/{name}/cancel"),
        client.delete(f"{URL}/{name}"),
    ):
        problem(answer, "unknown_certification")


def test_what_has_expired_is_gone_but_not_forgotten(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    record = player.begin(player.take())
    player.finish(record, now=time.time() - 100, ttl=99)
    problem(client.get(f"{URL}/{certification.id}"), "expired")
    problem(client.get(f"{URL}/{certification.id}/events"), "expired")
    problem(client.post(f"{URL}/{certification.id}/cancel"), "already_ended")
    listing = client.get(URL)
    assert listing.status_code == 200, listing.text
    (listed,) = [each for each in listing.json()["data"] if each["id"] == certification.id]
    assert listed["status"] == "expired"
    assert client.delete(f"{URL}/{certification.id}").status_code == 204
    problem(client.get(f"{URL}/{certification.id}"), "unknown_certification")


# --- cancel and delete


def test_what_waits_is_canceled_at_once(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    answer = client.post(f"{URL}/{certification.id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "canceled")
    assert player.waiting() == []
    assert player.redis.exists(keys.images(certification.id)) == 0
    problem(client.post(f"{URL}/{certification.id}/cancel"), "already_ended")


def test_what_runs_is_asked_to_stop(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    record = player.begin(player.take())
    channel = player.redis.pubsub()
    channel.subscribe(f"rq:pubsub:{player.name}")
    channel.get_message(timeout=PATIENCE_S)
    for _ in range(2):
        answer = client.post(f"{URL}/{certification.id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "canceling")
    assert json.loads(channel.get_message(timeout=PATIENCE_S)["data"]) == {
        "command": "stop-job",
        "job_id": certification.id,
    }
    assert channel.get_message(timeout=0.2) is None  # told once
    channel.close()
    player.finish(record, {}, status="canceled")
    problem(client.post(f"{URL}/{certification.id}/cancel"), "already_ended")
    assert got(client, certification.id).status == "canceled"


def test_a_cancel_that_comes_between_taking_and_beginning_wins(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    record = player.take()
    assert client.post(f"{URL}/{certification.id}/cancel").json()["status"] == "canceled"
    _, call = lease.begin(record, player.name, now=time.time(), ttl=60)
    assert player.redis.eval(*call.arguments)[0] == 0


def test_a_cancel_in_the_midst_of_changes_ends_in_one_of_two_ways(client: httpx2.Client, player: Player) -> None:
    """The worker begins at the very time: whichever comes first, the other sees it."""
    for _ in range(20):
        certification = posted(client, player)
        record = player.take()
        _, call = lease.begin(record, player.name, now=time.time(), ttl=60)
        with ThreadPoolExecutor(1) as worker:
            begun = worker.submit(player.redis.eval, *call.arguments)
            answer = client.post(f"{URL}/{certification.id}/cancel")
        expected = (202, "canceling") if begun.result()[0] else (200, "canceled")
        assert (answer.status_code, answer.json()["status"]) == expected


def test_only_what_has_ended_can_be_deleted(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    assert "queued" in problem(client.delete(f"{URL}/{certification.id}"), "still_running").detail
    record = player.begin(player.take())
    assert "running" in problem(client.delete(f"{URL}/{certification.id}"), "still_running").detail
    player.finish(record)
    answer = client.delete(f"{URL}/{certification.id}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert list(player.redis.scan_iter(f"*{certification.id}*")) == []
    problem(client.delete(f"{URL}/{certification.id}"), "unknown_certification")
