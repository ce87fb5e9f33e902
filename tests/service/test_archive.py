"""The archive of a real service is written once, read after expiry, listed and deleted, and catches up."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from app.http import authentication
from app.local.embedded import EmbeddedServer
from smoothcert.attestation.keys import KeySet
from smoothcert.certification import Certification, CertificationPage, CertificationSummary
from smoothcert.examination import examine
from store import archival, keys
from store.transitions import admission
from tests.service import database, eventually
from tests.support.api import Api, problem, question
from tests.support.attested import complete, keyring
from tests.support.bucket import NAME, Moto
from tests.support.player import SHAPE, Player

KEYS = {name: authentication.new_key() for name in ("ann", "bob")}


class Archived:
    """A service with an archive in a folder, and a worker that tests play."""

    def __init__(self, url: str, folder: Path) -> None:
        self.root = folder / "archive"
        keyring("the service").write(folder / "keyring")
        entries = ",".join(f"{name}:{authentication.digest(key)}" for name, key in KEYS.items())
        settings = {"archive": self.root, "api_keys": entries, "rate": 0, "keyring_file": folder / "keyring"}
        self.api, self.player = Api(url, folder, **settings), Player(url)
        self.player.announce()

    def ask(self, method: str, path: str, *, owner: str = "ann", **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {KEYS[owner]}", **options.pop("headers", {})}
        return self.api.client.request(method, path, headers=headers, **options)

    def ended(self, *, owner: str = "ann", fields: dict[str, Any] | None = None, **finish: Any) -> str:
        """A certification that has ended; `fields` belong to the request."""
        payload = question(self.player.ensemble, **(fields or {}))
        answer = self.ask("POST", "/v1/certifications", owner=owner, json=payload)
        assert answer.status_code == 202, answer.text
        record = self.player.begin(self.player.take())
        self.player.finish(record, **finish)
        return str(answer.json()["id"])

    def archived(self, **options: Any) -> str:
        """A certification that the archive has."""
        certification = self.ended(**options)
        self.settled(certification)
        return certification

    def settled(self, certification: str) -> None:
        eventually(lambda: self.player.redis.zscore(keys.ARCHIVAL, certification) is None, "the archive")

    def expire(self, certification: str, *, record: bool = True) -> None:
        """Let Redis forget the certificates, as it does after a day, and the record, as it does after two."""
        for key in (keys.certificates, keys.arrivals, *([keys.record] if record else [])):
            self.player.redis.delete(key(certification))

    def objects(self, certification: str) -> list[Path]:
        return sorted(each for each in self.root.rglob("*") if certification in str(each) and each.is_file())

    def document(self, certification: str) -> Path:
        (found,) = self.root.glob(f"certifications/{certification}/*.json")
        return found


@pytest.fixture(scope="module")
def service(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    found = Archived(database(valkey.url, 9), tmp_path_factory.mktemp("archive"))
    with found.api:
        yield found


def path(certification: str) -> str:
    return f"/v1/certifications/{certification}"


def test_a_certification_is_found_after_it_has_expired(service: Archived) -> None:
    certification = service.archived()
    before = service.ask("GET", path(certification))
    service.expire(certification)
    after = service.ask("GET", path(certification))
    assert after.status_code == 200
    assert before.json() == after.json()
    found = Certification.model_validate_json(after.content)
    assert (found.status, found.expires_at, len(found.certificates)) == ("succeeded", None, 1)
    assert "exp" not in problem(service.ask("GET", path(certification), owner="bob"), "unknown_certification").detail


def test_redis_keeps_results_for_their_time_once_the_archive_has_them(service: Archived) -> None:
    certification = service.archived(ttl=100)
    redis = service.player.redis
    ttls = [redis.ttl(key(certification)) for key in (keys.record, keys.certificates, keys.arrivals)]
    assert 190 < ttls[0] <= 200
    assert 90 < ttls[1] <= 100
    assert 90 < ttls[2] <= 100
    redis.delete(keys.certificates(certification))  # the certificates expire first
    assert len(service.ask("GET", path(certification)).json()["certificates"]) == 1


def test_a_request_that_is_repeated_after_its_certificates_have_expired_is_found(service: Archived) -> None:
    request = {"json": question(service.player.ensemble), "headers": {"Idempotency-Key": "again"}}
    certification = service.ask("POST", "/v1/certifications", **request).json()["id"]
    service.player.play()
    service.settled(certification)
    service.player.redis.delete(keys.certificates(certification))
    answer = service.ask("POST", "/v1/certifications", **request)
    assert (answer.status_code, answer.json()["id"]) == (200, certification)
    assert len(answer.json()["certificates"]) == 1


def test_the_object_can_be_checked_without_the_service(service: Archived) -> None:
    document = service.document(service.archived())
    assert examine(document.read_bytes()).problems == ()
    assert hashlib.sha256(document.read_bytes()).hexdigest() in document.name


def test_the_signed_certificates_are_kept_beside_it(service: Archived) -> None:
    certification = service.archived(certificates={0: complete().model_dump_json()})
    (attested,) = service.root.glob(f"certifications/{certification}/*.intoto.jsonl")
    for _ in ("from Redis", "from the archive"):
        signed = service.ask("GET", path(certification), headers={"Accept": "application/vnd.in-toto+json"})
        assert signed.text == attested.read_text(), "the same certificate gets the same signature"
        service.expire(certification)
    published = KeySet.model_validate_json(service.ask("GET", "/.well-known/smoothcert-keys.json").content)
    assert examine(attested.read_bytes(), published).signed.holds


def test_no_image_is_in_the_archive(service: Archived) -> None:
    certification = service.archived()
    sent = question(service.player.ensemble)["images"][0]
    assert not [each for each in service.objects(certification) if sent in each.read_text()]


def test_images_are_archived_where_the_request_asks_for_it_and_deleted_with_the_rest(service: Archived) -> None:
    certification = service.archived(fields={"archive_images": True})
    (file,) = service.root.glob(f"certifications/{certification}/images-*.npy")
    assert file.stem == f"images-{hashlib.sha256(file.read_bytes()).hexdigest()}"
    images = np.load(file)
    assert (images.shape, images.dtype) == ((1, *SHAPE), np.uint8)
    eventually(lambda: not service.player.redis.exists(keys.images(certification)), "Redis to forget them")
    assert service.ask("GET", path(certification)).json()["request"]["archive_images"] is True
    assert service.ask("DELETE", path(certification)).status_code == 204
    eventually(lambda: not service.objects(certification), "the erasure")


def test_images_wait_in_redis_for_an_archive_that_is_away(service: Archived) -> None:
    aside = service.root.with_name("aside")
    service.root.rename(aside)
    service.root.write_text("")
    try:
        late, plain = service.ended(fields={"archive_images": True}), service.ended()
        eventually(lambda: _behind(service), "trouble")
        assert service.player.redis.ttl(keys.images(late)) > archival.KEPT_S / 2
        assert not service.player.redis.exists(keys.images(plain))
    finally:
        service.root.unlink()
        aside.rename(service.root)
    service.settled(late)
    assert len(list(service.root.glob(f"certifications/{late}/images-*.npy"))) == 1
    service.settled(plain)


def test_a_service_without_an_archive_refuses_to_keep_images(client: httpx2.Client, player: Player) -> None:
    found = problem(
        client.post("/v1/certifications", json=question(player.ensemble, archive_images=True)), "invalid_request"
    )
    assert "archive_images: must be false, since this service has no archive" in found.detail


def test_lists_page_over_redis_and_the_archive(service: Archived) -> None:
    made = [service.archived(owner="bob") for _ in range(5)]
    for certification in (made[0], made[1], made[3]):
        service.expire(certification)
    seen, cursor = list[str](), ""
    while True:
        answer = service.ask("GET", "/v1/certifications", owner="bob", params={"limit": 2, "cursor": cursor})
        page = CertificationPage.model_validate_json(answer.content)
        seen += [each.id for each in page.data]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert seen == made[::-1]
    failed = service.ask("GET", "/v1/certifications", owner="bob", params={"status": "failed"})
    assert failed.json()["data"] == []


@pytest.mark.parametrize("expired", [False, True], ids=["in redis", "expired"])
def test_deletion_is_real(service: Archived, expired: bool) -> None:
    certification = service.archived()
    assert service.objects(certification)
    if expired:
        service.expire(certification)
    problem(service.ask("DELETE", path(certification), owner="bob"), "unknown_certification")
    assert service.ask("DELETE", path(certification)).status_code == 204
    problem(service.ask("GET", path(certification)), "unknown_certification")
    problem(service.ask("DELETE", path(certification)), "unknown_certification")
    listed = service.ask("GET", "/v1/certifications", params={"limit": 100}).json()["data"]
    assert certification not in [each["id"] for each in listed]
    eventually(lambda: not service.objects(certification), "its erasure")


def test_what_is_deleted_while_somebody_writes_it_is_erased_when_that_process_is_done(service: Archived) -> None:
    redis, certification = service.player.redis, service.archived()
    record = service.player.record(certification)
    redis.zadd(keys.ARCHIVAL, {certification: time.time() + archival.LEASE_S})  # another process has claimed it
    assert service.ask("DELETE", path(certification)).status_code == 204
    problem(service.ask("GET", path(certification)), "unknown_certification")
    time.sleep(1.0)
    assert service.objects(certification), "the lease of the other process is respected"
    redis.eval(*archival.written(record).arguments)  # the other process has finished
    eventually(lambda: not service.objects(certification), "its erasure")
    later = time.time() + archival.LATE_S / 2
    eventually(lambda: redis.zscore(keys.ARCHIVAL, certification) > later, "once more, later")


def test_what_a_failed_attempt_has_left_is_erased_with_the_certification(service: Archived) -> None:
    """A process claims it once more, and finds it deleted before it has read it."""
    redis, certification = service.player.redis, service.archived()
    redis.zadd(keys.ARCHIVAL, {certification: time.time() + archival.LEASE_S})
    assert service.ask("DELETE", path(certification)).status_code == 204
    redis.eval(*archival.dropped(certification).arguments)
    eventually(lambda: not service.objects(certification), "its erasure")


def test_what_redis_has_lost_is_forgotten(service: Archived) -> None:
    redis, certification = service.player.redis, f"cert_{'0' * 32}"
    redis.zadd(keys.ARCHIVAL, {certification: 0})
    service.settled(certification)


@pytest.mark.parametrize("forgotten", [True, False])
def test_an_archived_certification_is_followed_to_its_end_and_not_canceled(service: Archived, forgotten: bool) -> None:
    """Redis has the record for another day after the certificates have expired."""
    certification = service.archived()
    service.expire(certification, record=forgotten)
    for sent, names in ((0, ["certificate", "completed"]), (1, ["completed"])):
        stream = {"Accept": "text/event-stream", "Last-Event-ID": str(sent)}
        answer = service.ask("GET", path(certification) + "/events", headers=stream)
        assert re.findall(r"^event: (.*)$", answer.text, re.MULTILINE) == names
    data = answer.text.partition("data: ")[2]
    assert CertificationSummary.model_validate_json(data).status == "succeeded"
    problem(service.ask("POST", path(certification) + "/cancel"), "already_ended")


def test_the_clock_of_a_worker_delays_nothing(service: Archived) -> None:
    for difference in (-86_400.0, 86_400.0):
        certification = service.archived(now=time.time() + difference)
        service.expire(certification)
        assert service.ask("GET", path(certification)).status_code == 200


def test_a_truncated_object_is_a_sentence_and_can_be_deleted(service: Archived) -> None:
    certification = service.archived()
    service.expire(certification)
    document = service.document(certification)
    document.write_bytes(document.read_bytes()[:-10])
    assert "is damaged in the archive" in problem(service.ask("GET", path(certification)), "archive_damaged").detail
    assert service.ask("DELETE", path(certification)).status_code == 204
    eventually(lambda: not service.objects(certification), "its erasure")


def test_every_end_is_archived(service: Archived) -> None:
    answer = service.ask("POST", "/v1/certifications", json=question(service.player.ensemble))
    certification = answer.json()["id"]
    assert service.ask("POST", path(certification) + "/cancel").json()["status"] == "canceled"
    service.settled(certification)
    service.expire(certification)
    assert service.ask("GET", path(certification)).json()["status"] == "canceled"


def test_an_archive_that_is_full_or_away_catches_up(service: Archived) -> None:
    """A file stands in the place of the folder: every write fails, and nothing there can be read."""
    aside = service.root.with_name("aside")
    earlier = service.archived()
    service.expire(earlier)
    service.root.rename(aside)
    service.root.write_text("")
    try:
        late = [service.ended() for _ in range(3)]
        behind = eventually(lambda: _behind(service), "trouble")
        assert behind["waiting"] >= 3
        assert "The archive is behind by" in behind["detail"]
        assert "which Redis keeps" in behind["detail"]
        for certification in late:
            assert service.ask("GET", path(certification)).json()["status"] == "succeeded"
            assert service.player.redis.ttl(keys.certificates(certification)) > archival.KEPT_S / 2
        problem(service.ask("GET", path(earlier)), "unavailable")
    finally:
        service.root.unlink()
        aside.rename(service.root)
    for certification in late:
        service.settled(certification)
        assert len(service.objects(certification)) == 2
    metrics = service.ask("GET", "/metrics").text
    assert 'smoothcert_archive_total{outcome="retried"}' in metrics
    assert "smoothcert_archive_waiting 0.0" in metrics
    assert eventually(lambda: not _behind(service), "the archive")


def test_what_is_deleted_while_the_volume_is_not_mounted_is_erased_when_it_is(service: Archived) -> None:
    """Its place is an empty folder. Mutant killed: nothing is found there, so nothing is left to erase."""
    aside, kept = service.root.with_name("aside"), service.archived()
    deleted = service.archived()
    service.expire(kept)
    service.root.rename(aside)
    service.root.mkdir()
    try:
        problem(service.ask("GET", path(kept)), "unavailable")
        problem(service.ask("GET", "/v1/certifications"), "unavailable")
        assert service.ask("DELETE", path(deleted)).status_code == 204
        assert "its volume may not be mounted" in eventually(lambda: _behind(service), "trouble")["detail"]
    finally:
        service.root.rmdir()
        aside.rename(service.root)
    eventually(lambda: not service.objects(deleted), "its erasure")
    assert service.ask("GET", path(kept)).status_code == 200


def _behind(service: Archived) -> dict[str, Any] | None:
    state = service.ask("GET", "/readyz").json()["archive"]
    return state if state["status"] == "behind" else None


def test_a_bucket_is_an_archive_and_may_be_away_or_slow(
    valkey: EmbeddedServer, tmp_path: Path, players: Callable[..., Player]
) -> None:
    (tmp_path / "credentials").write_text("access\nsecret\n")
    player = players()
    with Moto() as moto:
        settings = {
            "archive": f"s3://{NAME}/some/where",
            "archive_endpoint": moto.endpoint,
            "archive_credentials_file": tmp_path / "credentials",
        }
        with Api(valkey.url, tmp_path, **settings) as api:
            certification = api.client.post("/v1/certifications", json=question(player.ensemble)).json()["id"]
            moto.stop()
            player.play()
            eventually(lambda: api.client.get("/readyz").json()["archive"]["status"] == "behind", "trouble")
            moto.start()
            eventually(lambda: player.redis.zscore(keys.ARCHIVAL, certification) is None, "the archive")
            assert len(moto.names()) == 2
            for key in (keys.record, keys.certificates):
                player.redis.delete(key(certification))
            assert api.client.get(path(certification)).json()["status"] == "succeeded"
            assert api.client.delete(path(certification)).status_code == 204
            eventually(lambda: not moto.names(), "its erasure")
            with moto.silent():  # it accepts what it is sent, and does not answer
                certification = api.client.post("/v1/certifications", json=question(player.ensemble)).json()["id"]
                player.play()
                assert api.client.get(path(certification)).json()["status"] == "succeeded"
                assert api.client.get("/readyz").json()["archive"]["waiting"] >= 1
                assert player.redis.zscore(keys.ARCHIVAL, certification) is not None
            eventually(lambda: player.redis.zscore(keys.ARCHIVAL, certification) is None, "the archive")
            assert len(moto.names()) == 2


def test_a_service_without_an_archive_keeps_nothing(client: httpx2.Client, player: Player) -> None:
    certification = client.post("/v1/certifications", json=question(player.ensemble)).json()["id"]
    record = player.play()
    assert record.archive == 0
    assert player.redis.zscore(keys.ARCHIVAL, certification) is None
    assert client.get("/readyz").json()["archive"] is None
    assert admission.LONGEST_WAIT * 2 == archival.KEPT_S
