"""Webhooks through real processes: Valkey, the API and an HTTP receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.__main__ import main
from app.local.embedded import EmbeddedServer
from app.webhooks.signature import owner_secret, signed
from smoothcert.problem import Failure
from store import deliveries, keys
from store.transitions import endings
from tests.service import eventually
from tests.support.api import Api, problem, question
from tests.support.asking import got, posted
from tests.support.player import Player
from tests.support.receiver import Received, Receiver, receiving
from tests.support.stored import accepted, begun, call, finishing, private_server

URL = "/v1/certifications"
SECRET = b"the secret of the service"
LOOPBACK = "127.0.0.0/8"


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "webhook_secret"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def sending(url: str, folder: Path, receiver: Receiver, secret_file: Path, **other: Any) -> Api:
    """An API that may send to the receiver, and that retries at once, five times."""
    settings = {
        "webhook_hosts": receiver.origin,
        "webhook_networks": LOOPBACK,
        "webhook_secret_file": secret_file,
        "webhook_retry_s": ",".join(["0.01"] * 5),
    }
    return Api(url, folder, **settings | other)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "server") as own:
        yield own


@pytest.fixture
def worker(server: EmbeddedServer) -> Player:
    made = Player(server.url)
    made.announce()
    return made


def opened(message: Received, owner: str = "anonymous") -> Any:
    """The payload of a message, whose signature must be right."""
    return Webhook(owner_secret(SECRET, owner)).verify(message.body, message.headers)


def arrived(receiver: Receiver, count: int = 1) -> list[Received]:
    eventually(lambda: len(receiver.received) >= count, f"{count} messages")
    return list(receiver.received)


def left(worker: Player) -> int:
    """The number of webhooks that are not delivered yet."""
    return int(worker.redis.zcard(keys.DELIVERIES))


def metric(api: Api, name: str) -> str | None:
    found = [line.split()[1] for line in api.client.get("/metrics").text.splitlines() if line.startswith(name)]
    return found[0] if found else None


def test_every_end_is_told_once_and_signed(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    with sending(server.url, tmp_path, receiver, secret_file) as api:
        address = f"{receiver.origin}/hook?token=t"
        for end in ("succeeded", "failed", "canceled"):
            certification = posted(api.client, worker, webhook=address)
            assert got(api.client, certification.id).request.webhook == address
            if end == "canceled":
                assert api.client.post(f"{URL}/{certification.id}/cancel").status_code == 200
            else:
                record = worker.begin(worker.take())
                error = Failure(code="internal", detail="broken") if end == "failed" else None
                worker.finish(record, status=end, error=error)  # type: ignore[arg-type]
            eventually(lambda: left(worker) == 0, "the delivery")
            message = receiver.received[-1]
            assert (message.path, message.id) == ("/hook?token=t", f"msg_{certification.id}")
            payload = opened(message)
            assert payload["type"] == f"certification.{end}"
            seen = got(api.client, certification.id)
            data = payload["data"]
            assert (data["id"], data["status"], data["url"]) == (seen.id, seen.status, seen.urls.self)
            assert data["error"] == (seen.error.model_dump() if seen.error else None)
            assert data["finished_at"] == payload["timestamp"]
        assert len(receiver.received) == 3
        worker.redis.delete(*worker.redis.keys("smoothcert:certification:*"))
        assert not worker.redis.keys("smoothcert:delivery:*")
        assert metric(api, 'smoothcert_webhooks_total{outcome="delivered"}') == "3.0"
        assert metric(api, "smoothcert_webhooks_waiting") == "0.0"
        assert "token" not in api.log.read_text()


def test_a_message_that_was_altered_or_is_of_another_key_does_not_verify() -> None:
    delivery = deliveries.Delivery("cert_1", "", "alice", '{"a": 1}', 1)
    headers = signed(SECRET, delivery)
    assert opened(Received("/", headers, b'{"a": 1}'), "alice") == {"a": 1}
    for body, owner, other in (
        (b'{"a": 2}', "alice", {}),
        (b'{"a": 1}', "bob", {}),
        (b'{"a": 1}', "alice", {"webhook-id": "msg_other"}),
    ):
        with pytest.raises(WebhookVerificationError):
            opened(Received("/", headers | other, body), owner)


def test_a_certification_without_a_webhook_writes_none() -> None:
    with private_server() as client:
        record = accepted(client)
        call(client, finishing(record, begun(client, record)))
        assert not client.exists(keys.DELIVERIES, keys.delivery(record.id))


def test_what_fails_is_tried_again_under_the_same_id_and_given_up_at_last(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    with sending(server.url, tmp_path, receiver, secret_file) as api:
        receiver.statuses = [500, 302, 404]
        receiver.headers = {"Location": f"{receiver.origin}/elsewhere"}
        first = posted(api.client, worker, webhook=f"{receiver.origin}/hook")
        worker.play()
        assert [each.path for each in arrived(receiver, 4)] == ["/hook"] * 4  # no redirect is followed
        eventually(lambda: left(worker) == 0, "the delivery")
        assert set(receiver.ids()) == {f"msg_{first.id}"}
        for message in receiver.received:
            opened(message)

        for statuses, attempts in (([500] * 9, 6), ([410], 1)):
            receiver.received.clear()
            receiver.statuses = list(statuses)
            posted(api.client, worker, webhook=f"{receiver.origin}/hook")
            worker.play()
            eventually(lambda: left(worker) == 0, "the end of the attempts")
            assert len(receiver.received) == attempts
        assert metric(api, 'smoothcert_webhooks_total{outcome="given-up"}') == "2.0"
        assert metric(api, 'smoothcert_webhooks_total{outcome="retried"}') == "8.0"


def test_attempts_survive_the_death_of_every_process(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    """Mutant killed: a list of deliveries, or of attempts, in the memory of the API."""
    waiting = {"webhook_retry_s": "3600,3600"}
    receiver.statuses = [503]
    with sending(server.url, tmp_path, receiver, secret_file, **waiting) as api:
        certification = posted(api.client, worker, webhook=f"{receiver.origin}/hook")
        worker.play()
        arrived(receiver)
        eventually(lambda: metric(api, 'smoothcert_webhooks_total{outcome="retried"}') == "1.0", "the outcome")
        assert api.process is not None
        api.process.kill()
        api.process.wait()
    server.kill()
    server.start()
    assert left(worker) == 1
    receiver.silent.set()
    worker.redis.zadd(keys.DELIVERIES, {certification.id: 0})  # an hour passes
    with sending(server.url, tmp_path, receiver, secret_file, **waiting) as api:
        arrived(receiver, 2)  # it is killed while it sends
        assert api.process is not None
        api.process.kill()
        api.process.wait()
    receiver.silent.clear()
    assert left(worker) == 1
    worker.redis.zadd(keys.DELIVERIES, {certification.id: 0})  # the lease expires
    with sending(server.url, tmp_path, receiver, secret_file, **waiting):
        eventually(lambda: left(worker) == 0, "the delivery")
    assert receiver.ids() == [f"msg_{certification.id}"] * 3
    assert opened(receiver.received[-1])["data"]["id"] == certification.id


def test_two_processes_send_a_message_once(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    with (
        sending(server.url, tmp_path, receiver, secret_file) as first,
        sending(server.url, tmp_path, receiver, secret_file),
    ):
        for _ in range(30):
            posted(first.client, worker, webhook=f"{receiver.origin}/hook")
        for _ in range(30):
            worker.play()
        eventually(lambda: left(worker) == 0, "all deliveries")
        assert len(receiver.ids()) == len(set(receiver.ids())) == 30


def test_a_receiver_at_a_private_address_gets_nothing(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    """This holds even for a host on the list, because its name may come to point anywhere."""
    for origin in (receiver.origin, f"http://localhost:{receiver.port}"):
        settings = {"webhook_hosts": origin, "webhook_secret_file": secret_file, "webhook_retry_s": "0.01"}
        with Api(server.url, tmp_path, **settings) as api:
            posted(api.client, worker, webhook=f"{origin}/hook")
            worker.play()
            eventually(lambda: left(worker) == 0, "the end of the attempts")
            assert "ForbiddenAddressError" in api.log.read_text()
    assert receiver.received == []


def test_an_address_that_is_not_allowed_is_refused(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    with sending(server.url, tmp_path, receiver, secret_file) as api:
        for address in (
            "https://elsewhere.example/hook",
            f"https://127.0.0.1:{receiver.port}/hook",
            f"http://127.0.0.1:{receiver.port + 1}/hook",
            f"http://user@127.0.0.1:{receiver.port}/hook",
            f"http://127.0.0.1:{receiver.port}@elsewhere.example/hook",
            f"http://127.0.0.1:{receiver.port}\\@elsewhere.example/hook",
            "http://[::1/hook",
            "ftp://127.0.0.1/hook",
            "http://127.0.0.1/a b",
            "/hook",
            "",
            7,
        ):
            answer = api.client.post(URL, json=question(worker.ensemble, webhook=address))
            assert "webhook" in problem(answer, "invalid_request").detail, address
    with Api(server.url, tmp_path) as plain:
        answer = plain.client.post(URL, json=question(worker.ensemble, webhook=f"{receiver.origin}/hook"))
        assert "sends no webhooks" in problem(answer, "invalid_request").detail
    assert worker.waiting() == []


def test_a_host_that_is_no_longer_allowed_is_not_called(
    server: EmbeddedServer, worker: Player, receiver: Receiver, secret_file: Path, tmp_path: Path
) -> None:
    with sending(server.url, tmp_path, receiver, secret_file) as api:
        certification = posted(api.client, worker, webhook=f"{receiver.origin}/hook")
    worker.play()
    assert left(worker) == 1
    with sending(server.url, tmp_path, receiver, secret_file, webhook_hosts="hooks.example.com"):
        eventually(lambda: left(worker) == 0, "the end of the attempts")
    assert receiver.received == []
    assert certification.id not in receiver.ids()


# --- claims


def test_an_owner_whose_receiver_hangs_holds_up_nobody_else() -> None:
    """Mutants killed: no share; a claim that is not counted; deliveries that were put off stay before all others."""
    with private_server() as client:
        for owner, count in (("slow", 150), ("quick", 2)):
            for _ in range(count):
                record = accepted(client, owner=owner, webhook="https://hooks.example.com/")
                call(client, finishing(record, begun(client, record)))

        def claim(**held: int) -> list[deliveries.Delivery]:
            command = deliveries.claim(most=32, share=8, held=held)
            return deliveries.claimed(client.eval(*command.arguments))

        assert [each.owner for each in claim()] == ["slow"] * 8
        assert {each.owner for each in claim(slow=8)} == {"quick"}
        again = eventually(claim, "those that were put off")
        assert {(each.owner, each.attempts) for each in again} == {("slow", 1)}
        # Delivered messages are gone, failed ones are due at their time, and expired ones are dropped.
        for each, commands in zip(again, (deliveries.done, deliveries.again), strict=False):
            arguments = {"outcome": "delivered"} if commands is deliveries.done else {"at": 1.0}
            for command in commands(each, **arguments):  # type: ignore[operator]
                client.execute_command(*command)
        assert client.zscore(keys.DELIVERIES, again[0].certification) is None
        assert not client.exists(keys.delivery(again[0].certification))
        (first, *_) = claim()
        assert (first.certification, first.attempts) == (again[1].certification, 2)
        client.flushdb()
        client.zadd(keys.DELIVERIES, {"cert_expired": 1})
        assert claim() == []
        assert not client.exists(keys.DELIVERIES)


def test_a_process_that_comes_late_brings_nothing_back() -> None:
    """Two processes sent the same message, because the first took longer than its lease."""
    with private_server() as client:
        record = accepted(client, webhook="https://hooks.example.com/")
        call(client, finishing(record, begun(client, record)))
        (delivery,) = deliveries.claimed(client.eval(*deliveries.claim(most=1, share=1, held={}).arguments))
        for command in (*deliveries.done(delivery, "delivered"), *deliveries.again(delivery, at=1.0)):
            client.execute_command(*command)
        assert not client.exists(keys.DELIVERIES, keys.delivery(record.id))


def test_a_deadline_that_passed_is_told_too() -> None:
    with private_server() as client:
        late = accepted(client, webhook="https://hooks.example.com/")
        assert call(client, endings.miss(late, now=1.0, ttl=60))[0] == 1
        body = json.loads(client.hget(keys.delivery(late.id), "body"))
        assert (body["type"], body["data"]["error"]["code"]) == ("certification.failed", "deadline_exceeded")


# --- settings


def test_the_command_prints_the_secret_of_a_key(
    secret_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["webhook", "alice"]) == 1
    assert "SMOOTHCERT_WEBHOOK_SECRET_FILE" in capsys.readouterr().err
    monkeypatch.setenv("SMOOTHCERT_WEBHOOK_SECRET_FILE", str(secret_file))
    assert main(["webhook", "alice"]) == 0
    assert capsys.readouterr().out == f"{owner_secret(SECRET, 'alice')}\n"
