"""Signed certificates in the SDK and on the command line, through the whole service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from smoothcert import AsyncClient, BadRequestError, Client, StillRunningError
from smoothcert.attestation.keys import PATH, KeySet
from smoothcert.certificate import Certificate
from smoothcert.client.errors import AnswerError
from smoothcert.client.outcome import sealed
from smoothcert.examination import examine
from tests.support.attested import complete, keyring
from tests.support.attested import sealed as envelope
from tests.support.command import QUICKLY, one_sentence, png, smoothcert
from tests.support.questions import DARK, ENDLESS, LIGHT, QUICK
from tests.support.rogue import Rogue, reply


@pytest.fixture(scope="module")
def keys(service: str) -> bytes:
    return httpx2.get(service + PATH).content


def test_a_certificate_comes_with_its_attestation(client: Client, keys: bytes) -> None:
    certificate = client.certify(LIGHT, attest=True, **QUICK)
    assert certificate.attestation is not None
    found = examine(certificate.attestation.encode(), KeySet.from_json(keys))
    assert found.problems == ()
    assert found.signed.sentence.startswith("By the service, with the key ")
    assert json.loads(certificate.attestation)["payloadType"] == "application/vnd.in-toto+json"
    assert certificate == Certificate.from_json(certificate.to_json()), "the attestation is not a part of it"


def test_it_is_not_fetched_unasked(client: Client) -> None:
    assert client.certify(LIGHT, **QUICK).attestation is None


def test_several_come_in_the_order_of_the_images(service: str, keys: bytes) -> None:
    async def certify() -> list[Certificate]:
        async with AsyncClient(service) as client:
            found = await client.certify([DARK, LIGHT], attest=True, **QUICK)
            newest = await anext(client.certifications.list())
            assert await client.certifications.attestations(newest.id) == [each.attestation for each in found]
            return found

    found = asyncio.run(certify())
    assert [each.class_name for each in found] == ["dark", "light"]
    text = "\n".join(each.attestation or "" for each in found).encode()
    assert examine(text, KeySet.from_json(keys)).certificates == 2


@pytest.mark.parametrize(
    "fields",
    [
        QUICK,
        {**QUICK, "family_wise": True, "alpha": 0.01},
        {**QUICK, "sigma": 0.02, "consensus": 1, "nonce": "mine"},
        {**QUICK, "procedure": {"name": "fixed", "n": 500}, "radius": None},
        {**QUICK, "procedure": "optimal"},
        {**QUICK, "procedure": {"name": "largest", "max_samples": 500}, "radius": None},
    ],
    ids=["sequential", "family-wise", "sigma", "fixed", "optimal", "largest"],
)
def test_a_certification_of_the_service_agrees_with_its_certificates(
    client: Client, service: str, fields: dict[str, Any]
) -> None:
    done = client.certifications.wait(client.submit([DARK, LIGHT], **fields).id)
    payload = httpx2.get(f"{service}/v1/certifications/{done.id}").json()
    assert examine(json.dumps(payload).encode()).problems == ()
    payload["request"]["beta"] = 0.5
    assert len(examine(json.dumps(payload).encode()).problems) == 2


def test_what_runs_is_not_signed(client: Client) -> None:
    running = client.submit(LIGHT, **ENDLESS)
    with pytest.raises(StillRunningError):
        client.certifications.attestations(running.id)
    client.certifications.cancel(running.id)


def test_attestations_of_something_else_are_refused() -> None:
    ring, certificate = keyring(), complete(0)
    assert sealed([certificate], [envelope(certificate, ring)])[0].attestation == envelope(certificate, ring)
    with pytest.raises(AnswerError, match="of other certificates"):
        sealed([certificate], [envelope(complete(1), ring)])
    with pytest.raises(AnswerError, match="cannot be read: the envelope cannot be read"):
        sealed([certificate], ["{"])


def test_a_service_of_an_earlier_version_is_named(rogue: Rogue) -> None:
    rogue.plan("GET /v1/certifications/cert_1", reply(200, {}))
    with Client(rogue.url) as client, pytest.raises(AnswerError, match="does not sign certificates"):
        client.certifications.attestations("cert_1")


def test_the_command_writes_what_verify_reads(service: str, keys: bytes, tmp_path: Path) -> None:
    image, file, key = tmp_path / "light.png", tmp_path / "light.intoto.jsonl", tmp_path / "keys.json"
    image.write_bytes(png(255))
    key.write_bytes(keys)
    done = smoothcert("certify", image, *QUICKLY, "--attest", file, url=service)
    assert done.returncode == 0, done.stderr
    assert "  signed:    yes. By the service" in smoothcert("verify", "--key", key, file).stdout
    with Client(service) as client:
        newest = next(client.certifications.list())
    again = tmp_path / "again.intoto.jsonl"
    assert smoothcert("watch", newest.id, "--attest", again, url=service).returncode == 0
    assert again.read_bytes() == file.read_bytes()
    file.write_text(file.read_text().replace("e", "f", 1))
    assert smoothcert("verify", "--key", key, file).returncode == 1


def test_a_file_that_cannot_be_written_is_said_before_the_work(service: str, tmp_path: Path) -> None:
    image = tmp_path / "light.png"
    image.write_bytes(png(255))
    done = smoothcert("certify", image, *QUICKLY, "--attest", tmp_path / "no" / "file", url=service)
    one_sentence(done, "cannot write")


def test_a_service_that_does_not_sign_is_a_sentence(rogue: Rogue, tmp_path: Path) -> None:
    image, detail = tmp_path / "light.png", "this service has no key to sign certificates with"
    image.write_bytes(png(255))
    with Client(rogue.url) as client:
        done = client.certifications.wait(client.submit(LIGHT, **QUICK).id)
        payload = {"title": "", "status": 406, "detail": detail, "code": "not_acceptable", "request_id": "r"}
        rogue.plan(f"GET /v1/certifications/{done.id}", reply(406, {"type": "", **payload}))
        with pytest.raises(BadRequestError, match=detail):
            client.certifications.attestations(done.id)
