"""`client.certifications`, `client.ensembles`, plans and verifications, against a whole service."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from app.http.authentication import digest
from app.local.embedded import EmbeddedServer
from smoothcert import Client
from smoothcert.certificate import Certificate
from smoothcert.certification import CertificationSummary, Progress
from smoothcert.client import errors
from smoothcert.client.operations import PAGE
from tests.support.api import Api
from tests.support.questions import DARK, ENDLESS, LIGHT, QUICK


def test_a_certification_is_submitted_followed_and_forgotten(client: Client) -> None:
    submitted = client.submit([DARK, LIGHT], **QUICK)
    events = list(client.certifications.events(submitted.id))
    received = [event.data for event in events if isinstance(event.data, Certificate)]
    assert sorted(certificate.index for certificate in received) == [0, 1]
    assert isinstance(events[-1].data, CertificationSummary)
    assert (events[-1].name, events[-1].data.status) == ("completed", "succeeded")
    assert any(isinstance(event.data, Progress) for event in events)
    ended = client.certifications.get(submitted.id)
    assert sorted(received, key=lambda each: each.index) == [*ended.certificates]
    assert client.certifications.wait(submitted.id) == ended
    client.certifications.delete(submitted.id)
    with pytest.raises(errors.UnknownCertificationError) as caught:
        client.certifications.get(submitted.id)
    assert (caught.value.code, caught.value.status) == ("unknown_certification", 404)
    assert caught.value.request_id
    assert submitted.id in caught.value.detail
    assert "kept for a limited time, by default for a day" in str(caught.value)


def test_a_list_goes_on_over_its_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [client.submit(DARK, **QUICK).id for _ in range(5)]
    assert PAGE > 5
    monkeypatch.setattr("smoothcert.client.operations.PAGE", 2)
    found = [each.id for each in itertools.islice(client.certifications.list(), 5)]
    assert found == made[::-1]
    client.certifications.wait(made[-1])
    assert made[-1] in [each.id for each in client.certifications.list(status="succeeded")]
    with pytest.raises(errors.InvalidRequestError, match="status"):
        next(client.certifications.list(status="nothing"))  # type: ignore[arg-type]


def test_what_is_canceled_twice_is_canceled(client: Client) -> None:
    submitted = client.submit(DARK, **ENDLESS)
    with pytest.raises(errors.StillRunningError):
        client.certifications.delete(submitted.id)
    assert client.certifications.cancel(submitted.id).status in ("canceled", "canceling")
    assert client.certifications.wait(submitted.id).status == "canceled"
    assert client.certifications.cancel(submitted.id).status == "canceled"


def test_what_has_ended_cannot_be_canceled(client: Client) -> None:
    submitted = client.submit(DARK, **QUICK)
    client.certifications.wait(submitted.id)
    with pytest.raises(errors.AlreadyEndedError):
        client.certifications.cancel(submitted.id)


def test_ensembles(client: Client) -> None:
    assert [each.name for each in client.ensembles.list()] == ["moody", "trivial"]
    assert client.ensembles.get("trivial").input_shape == (3, 8, 8)
    with pytest.raises(errors.UnknownEnsembleError, match="nobody"):
        client.ensembles.get("nobody")


def test_a_plan(client: Client) -> None:
    planned = client.plan(**QUICK)
    assert planned.feasible
    assert not client.plan(**{**QUICK, "radius": 5.0}).feasible
    assert client.plan(**QUICK, family_wise=True, image_count=1000).largest_radius < planned.largest_radius


def test_a_certificate_that_was_altered_is_told(client: Client) -> None:
    certificate = client.certify(DARK, **QUICK)
    altered = certificate.model_copy(update={"radius": 0.5})
    found = client.verify(altered)
    assert not found.consistent
    assert {problem.field for problem in found.problems} == {"digest", "radius"}
    assert client.verify(certificate.to_json()).consistent
    with pytest.raises(errors.InvalidCertificateError):
        client.verify("{}")


@pytest.mark.parametrize("odd", ["", "a/b", "../version", "cert_1?x=1", "ü"])
def test_ids_that_are_none_never_leave(odd: str) -> None:
    with Client("http://127.0.0.1:9", retries=0) as nowhere, pytest.raises(errors.InvalidRequestError, match="name"):
        nowhere.certifications.get(odd)


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"ensemble": "nobody"}, errors.UnknownEnsembleError, "nobody"),
        ({"radius": 5.0}, errors.RadiusOutOfReachError, "the largest that can be proved"),
        ({"sigma": 1.0}, errors.NoiseMismatchError, "gaussian, sigma 0.02"),
        ({"alpha": 2.0}, errors.InvalidRequestError, "alpha: .* got 2.0"),
        ({"colour": "red"}, errors.InvalidRequestError, "colour"),
        ({"labels": [1, 2]}, errors.InvalidRequestError, "labels: .* 2 for 1 images"),
        ({"on_timeout": "explode"}, errors.InvalidRequestError, "'explode'"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(
    client: Client, fields: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        client.certify(DARK, **{**QUICK, **fields})


def test_keys(service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = f"somebody:{digest('sk_right')}"
    with EmbeddedServer(tmp_path / "valkey") as server, Api(server.url, tmp_path, api_keys=keys) as api:
        address = f"http://127.0.0.1:{api.port}"
        with Client(address) as without, pytest.raises(errors.UnauthorizedError, match="SMOOTHCERT_API_KEY"):
            without.ensembles.list()
        with Client(address, "sk_wrong") as wrong, pytest.raises(errors.UnauthorizedError) as caught:
            wrong.ensembles.list()
        assert "sk_wrong" not in f"{caught.value} {wrong!r} {wrong._core!r}"
        monkeypatch.setenv("SMOOTHCERT_URL", address + "/")
        monkeypatch.setenv("SMOOTHCERT_API_KEY", "sk_right")
        with Client() as right:
            assert right.ensembles.list() == []
