"""Whatever happens to the connection, a certification is made once and its certificates arrive."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import pytest

from smoothcert import Client
from smoothcert.certificate import Certificate
from smoothcert.client import errors
from smoothcert.client.address import Address
from smoothcert.client.exchange import Exchange
from smoothcert.client.retries import Retries, retry_after
from tests.service import free_port
from tests.support.questions import DARK, LIGHT, QUICK
from tests.support.rogue import Rogue, cut_after, drop, lose_answer, refuse

POST, GET, EVENTS = "POST /v1/certifications", "GET /v1/certifications", "/events"


@pytest.mark.parametrize("mischief", [drop, lose_answer, refuse(500), refuse(502), refuse(408), refuse(429)])
def test_a_submission_that_is_sent_again_is_made_once(rogue: Rogue, service: str, mischief: Any) -> None:
    with Client(service) as direct, Client(rogue.url) as client:
        before = {each.id for each in direct.certifications.list()}
        rogue.plan(POST, mischief, times=2)
        assert client.certify(LIGHT, **QUICK).class_index == 1
        sent = rogue.requests(POST)
        assert len(sent) == 3
        assert len({seen.headers["Idempotency-Key"] for seen in sent}) == 1
        assert len({each.id for each in direct.certifications.list()} - before) == 1


def test_two_submissions_are_two(rogue: Rogue) -> None:
    with Client(rogue.url) as client:
        first, second = (client.submit(DARK, **QUICK).id for _ in range(2))
        assert first != second
        for each in (first, second):
            client.certifications.wait(each)


def test_retry_after_is_honoured(rogue: Rogue) -> None:
    rogue.plan("GET /v1/ensembles", refuse(429, Retry_After="1"))
    begun = time.monotonic()
    with Client(rogue.url) as client:
        assert len(client.ensembles.list()) == 2
    assert time.monotonic() - begun >= 1.0


def test_whoever_is_to_come_back_much_later_is_told_so(rogue: Rogue) -> None:
    rogue.plan("GET /v1/ensembles", refuse(429, Retry_After="3600"))
    with Client(rogue.url) as client, pytest.raises(errors.BusyError) as caught:
        client.ensembles.list()
    assert caught.value.retry_after == 3600
    assert "try again in 3600 s" in str(caught.value)
    assert len(rogue.seen) == 1


def test_retries_end(rogue: Rogue) -> None:
    rogue.plan("GET /v1/ensembles", refuse(503), times=9)
    with Client(rogue.url, retries=2) as client, pytest.raises(errors.ServerError) as caught:
        client.ensembles.list()
    assert (caught.value.status, caught.value.attempts, len(rogue.seen)) == (503, 3, 3)


def test_what_is_wrong_is_not_sent_again(rogue: Rogue) -> None:
    with Client(rogue.url) as client, pytest.raises(errors.UnknownEnsembleError):
        client.ensembles.get("nobody")
    assert len(rogue.seen) == 1


@pytest.mark.parametrize("events", [0, 1, 2, 3])
def test_events_go_on_after_a_cut_and_nothing_comes_twice(rogue: Rogue, events: int) -> None:
    rogue.plan(EVENTS, cut_after(events), times=3)
    with Client(rogue.url) as client:
        submitted = client.submit([DARK, LIGHT, DARK, LIGHT], **QUICK)
        received = list(client.certifications.events(submitted.id))
        client.certifications.wait(submitted.id)
    places = [event.data.index for event in received if isinstance(event.data, Certificate)]
    assert sorted(places) == [0, 1, 2, 3]
    assert received[-1].name == "completed"
    assert len(rogue.requests(EVENTS)) > 1
    assert rogue.requests(EVENTS)[1].headers["Last-Event-ID"] == (received[events - 1].id if events else "0")


@pytest.mark.parametrize("mischief", [drop, cut_after(0), refuse(404), refuse(200), refuse(500)])
def test_where_events_do_not_come_through_it_is_polled(rogue: Rogue, mischief: Any) -> None:
    rogue.plan(EVENTS, mischief, times=20)
    reports: list[int] = []
    with Client(rogue.url, retries=1) as client:
        found = client.certify([DARK, LIGHT], progress=lambda progress: reports.append(progress.images_done), **QUICK)
    assert [each.class_index for each in found] == [0, 1]
    assert reports[-1] == 2
    assert any(seen.headers.get("Prefer") for seen in rogue.requests(GET))


def test_a_deletion_whose_answer_was_lost_is_a_deletion(rogue: Rogue) -> None:
    with Client(rogue.url) as client:
        submitted = client.submit(DARK, **QUICK)
        client.certifications.wait(submitted.id)
        rogue.plan("DELETE", lose_answer)
        client.certifications.delete(submitted.id)
        with pytest.raises(errors.UnknownCertificationError):
            client.certifications.delete(submitted.id)


def test_a_service_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("SMOOTHCERT_URL", address)
    with Client() as client, pytest.raises(errors.NoAnswerError, match="is it running") as caught:
        client.certify(DARK, **QUICK)
    assert address in str(caught.value)
    assert (caught.value.code, caught.value.status) == ("no_answer", None)
    assert caught.value.attempts == 1, "nothing listens on this machine, and no second try helps"


def test_a_service_on_this_machine_that_has_answered_before_is_tried_again() -> None:
    refused = httpx2.ConnectError("refused")
    refused.__cause__ = ConnectionRefusedError()
    for url, reached, hopeless in [
        ("http://127.0.0.1:1", False, True),
        ("http://localhost:1", False, True),
        ("http://[::1]:1", False, True),
        ("http://127.0.0.1:1", True, False),
        ("http://example.org", False, False),
    ]:
        exchange = Exchange(Address.of(url, None), Retries(), reached=reached)
        assert exchange.no_answer(refused).hopeless == hopeless
        assert not exchange.no_answer(httpx2.ConnectError("reset")).hopeless


def test_a_number_of_tries_that_was_chosen_is_tried() -> None:
    with Client(f"http://127.0.0.1:{free_port()}", retries=1) as client, pytest.raises(errors.NoAnswerError) as caught:
        client.ensembles.list()
    assert caught.value.attempts == 2


def test_a_service_that_says_nothing_is_given_up(rogue: Rogue) -> None:
    rogue.plan("GET /v1/ensembles", lambda exchange: time.sleep(1))
    with Client(rogue.url, timeout=0.2, retries=0) as client, pytest.raises(errors.NoAnswerError, match="timeout="):
        client.ensembles.list()


def test_pauses_grow_and_vary() -> None:
    retries = Retries(most=20)
    for attempt in range(1, 20):
        whole = min(retries.longest_s, retries.first_s * 2 ** (attempt - 1))
        pauses = [retries.backoff(attempt) for _ in range(50)]
        assert whole / 2 <= min(pauses) < max(pauses) <= whole


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("7", 7.0), ("soon", None), ("-1", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds
