"""Bad input gets a clear 4xx that names what was seen and what is accepted, and nothing is queued."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from app.local.embedded import EmbeddedServer
from smoothcert.procedures import PROCEDURES
from tests.service import PATIENCE_S
from tests.support.api import Api, npy, picture, problem, question, text
from tests.support.player import SHAPE, Player
from tests.support.refusal import JSON, NPY, URL, nothing_is_queued, refused

__all__ = ["nothing_is_queued"]


# --- the question


@pytest.mark.parametrize(
    ("fields", "field", "seen"),
    [
        ({"alpha": 0}, "alpha", "0"),
        ({"alpha": 1}, "alpha", "1"),
        ({"alpha": -0.5}, "alpha", "-0.5"),
        ({"alpha": "0.1"}, "alpha", "'0.1'"),
        ({"alpha": True}, "alpha", "True"),
        ({"alpha": None}, "alpha", "None"),
        ({"beta": 0}, "beta", "0"),
        ({"beta": 1.0}, "beta", "1.0"),
        ({"beta": 1e-21}, "beta", "1e-21"),
        ({"sigma": 0}, "sigma", "0"),
        ({"sigma": 101}, "sigma", "101"),
        (
            {"noise": "magic"},
            "noise",
            "'uniform', 'replacement', 'splitting', got 'magic'",
        ),
        (
            {"noise": {"name": "magic", "sigma": 1}},
            "noise",
            "'uniform', 'replacement', 'splitting', got 'magic'",
        ),
        ({"noise": {"sigma": 0.25}}, "noise", "must have the field 'name', got {'sigma': 0.25}"),
        ({"noise": 0.25}, "noise", "must be an object, got 0.25"),
        ({"noise": ["gaussian"]}, "noise", "must be an object"),
        ({"noise": "gaussian"}, "noise.gaussian.sigma", "is missing"),
        ({"noise": {"name": "gaussian", "sigma": 0}}, "noise.gaussian.sigma", "must be more than 0, got 0"),
        ({"noise": {"name": "gaussian", "sigma": 1e308}}, "noise.gaussian.sigma", "100, got 1e+308"),
        ({"noise": {"name": "gaussian", "sigma": "1"}}, "noise.gaussian.sigma", "got '1'"),
        ({"noise": {"name": "gaussian", "sigma": 1, "norm": "l1"}}, "noise.gaussian.norm", "'l2', got 'l1'"),
        (
            {"noise": {"name": "gaussian", "sigma": 1, "rate": 2}},
            "noise.gaussian.rate",
            "there is no such field, got 2",
        ),
        ({"sigma": 0.5, "noise": {"name": "gaussian", "sigma": 0.25}}, "", "sigma 0.5 is short for Gaussian noise"),
        ({"radius": -1}, "radius", "-1"),
        ({"radius": [1]}, "radius", "[1]"),
        ({"procedure": "magic"}, "procedure", f"'{PROCEDURES.offered[-1]}', got 'magic'"),
        ({"procedure": {"name": "adaptive", "stages": [100, 100]}}, "procedure.adaptive.stages", "[100, 100]"),
        ({"procedure": {"name": "adaptive", "stages": [200, 100]}}, "procedure.adaptive.stages", "[200, 100]"),
        ({"procedure": {"name": "adaptive", "stages": []}}, "procedure.adaptive.stages", "none"),
        ({"procedure": {"name": "adaptive", "n": 5}}, "procedure.adaptive.n", "5"),
        ({"procedure": {"name": "sequential", "max_samples": 10**8}}, "procedure.sequential.max_samples", "100000000"),
        ({"procedure": {"name": "fixed", "n": 0}}, "procedure.fixed.n", "0"),
        (
            {"procedure": {"name": "fixed", "nn": 1000}},
            "procedure.fixed.nn",
            "there is no such field, got 1000, did you mean n?; fixed has n0, n",
        ),
        (
            {"procedure": "hierarchy"},
            "procedure.hierarchy.levels",
            "is missing: 'declared' for the superclasses of the ensemble, or a list of levels",
        ),
        (
            {"procedure": {"name": "hierarchy", "levels": "declred"}},
            "procedure.hierarchy.levels",
            "must be 'declared' or a list of levels, got 'declred'",
        ),
        ({"procedure": {"name": "fixed", "n": 1.5}}, "procedure.fixed.n", "1.5"),
        ({"procedure": 7}, "procedure", "7"),
        ({"voting": "loud"}, "voting", "loud"),
        ({"consensus": 0}, "consensus", "0"),
        ({"convert": "cmyk"}, "convert", "cmyk"),
        ({"ensemble": "../x"}, "ensemble", "../x"),
        ({"labels": [-1]}, "labels.0", "-1"),
        ({"labels": "1"}, "labels", "'1'"),
        ({"prepared": [{"source": [2, 2], "box": [0, 0, 3, 2], "by": "me"}]}, "prepared.0", "right <= 2"),
        ({"prepared": [{"source": [2, 2], "box": [0, 0, 1, 2], "by": ""}]}, "prepared.0.by", "''"),
        ({"metadata": {"k": 1}}, "metadata.k", "1"),
        ({"metadata": {"k": "v" * 300}}, "metadata.k", "vvv'..."),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata", "at most 16"),
        ({"priority": "urgent"}, "priority", "urgent"),
        ({"deadline_s": 0}, "deadline_s", "0"),
        ({"family_wise": 1}, "family_wise", "1"),
        ({"images": []}, "images", "0"),
        ({"images": "abc"}, "images", "'abc'"),
        ({"images": [{"dtype": "int8", "shape": [1, 1, 1], "data": ""}]}, "images.0.TensorImage.dtype", "int8"),
        ({"images": [{"dtype": "uint8", "shape": [1, 1], "data": ""}]}, "images.0.TensorImage.shape", "2"),
        ({"seed": "1234"}, "seed", "1234"),
        ({"nonsense": 1}, "nonsense", "1"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_seen(
    client: httpx2.Client, player: Player, fields: dict[str, Any], field: str, seen: str
) -> None:
    refusal = problem(client.post(URL, json=question(player.ensemble, **fields)), "invalid_request")
    messages = [each.message for each in refusal.errors if each.field == field]
    assert messages, refusal
    assert any(seen in message for message in messages), refusal


def test_an_unknown_ensemble_is_not_found(client: httpx2.Client, player: Player) -> None:
    refused(client, player, "unknown_ensemble", "'nobody'", player.ensemble, ensemble="nobody")


def test_another_noise_than_the_ensembles_must_be_allowed(client: httpx2.Client, player: Player) -> None:
    refused(client, player, "noise_mismatch", "0.5", "0.25", "allow_noise_mismatch", sigma=0.5)
    answer = client.post(URL, json=question(player.ensemble, sigma=0.5, allow_noise_mismatch=True))
    assert answer.json()["request"]["noise"] == {"sigma": 0.5, "name": "rounded-gaussian", "norm": "l2"}
    player.play()
    refused(client, player, "noise_mismatch", "0.5", "0.25", noise={"name": "gaussian", "sigma": 0.5})
    old_name = client.post(URL, json=question(player.ensemble, sigma=0.5, allow_sigma_mismatch=True))
    assert old_name.json()["request"]["allow_noise_mismatch"] is True
    player.play()


def test_an_ensemble_of_unknown_noise_needs_one(client: httpx2.Client, players: Callable[..., Player]) -> None:
    other = players(noise=None)
    problem(client.post(URL, json=question(other.ensemble)), "invalid_request")
    assert other.waiting() == []
    assert client.post(URL, json=question(other.ensemble, sigma=0.5)).json()["request"]["noise"]["sigma"] == 0.5


def test_what_the_ensemble_does_not_offer_is_refused(client: httpx2.Client, player: Player) -> None:
    refused(client, player, "invalid_request", "'weighted'", "'soft', 'hard'", voting="weighted")
    refused(client, player, "invalid_request", "3", "2 members", consensus=3)
    refused(client, player, "invalid_request", "labels", "1", "2 images", images=[text(picture())] * 2, labels=[0])
    refused(client, player, "invalid_request", "labels.0", "3", "0 to 2", labels=[3])
    refused(client, player, "invalid_request", "prepared", "2 for 1 images", prepared=[None, None])


def test_a_radius_out_of_reach_comes_with_what_would_be_in_reach(client: httpx2.Client, player: Player) -> None:
    # By hand: 0.0005 ** (1 / 200) = 0.9627, sigma * Phi^-1 of it = 0.4457; log(0.0005) / log(Phi(0.5 / 0.25)) = 330.3.
    refused(client, player, "radius_out_of_reach", "0.4457", "is 0.5", "200 samples", "331 samples", radius=0.5)
    refused(client, player, "radius_out_of_reach", "beyond what can be computed", radius=5)
    sequential = {"name": "sequential", "max_samples": 1000}
    refused(client, player, "radius_out_of_reach", "would take", radius=0.65, procedure=sequential)
    beyond = ("7,001,66", "more than the 1,000,000 that this service allows")  # log(0.001) / log(Phi(1.5 / 0.25))
    noise = {"name": "gaussian", "sigma": 0.25}
    refused(client, player, "radius_out_of_reach", *beyond, radius=1.5, procedure="sequential", noise=noise)


def test_where_alpha_is_shared_less_is_in_reach(client: httpx2.Client, player: Player) -> None:
    many = [text(picture())] * 20
    payload = question(player.ensemble, radius=0.42, images=many)
    assert client.post(URL, json=payload).status_code == 202
    player.play()
    refused(client, player, "radius_out_of_reach", "5e-05", radius=0.42, images=many, family_wise=True)
    refused(client, player, "invalid_request", "alpha", "1e-20", alpha=1e-20, images=many, family_wise=True)
    refused(
        client, player, "invalid_request", "beta", beta=1e-20, procedure={"name": "adaptive", "stages": [9, 99, 999]}
    )


def test_a_fixed_procedure_takes_no_radius_and_the_others_need_one(client: httpx2.Client, player: Player) -> None:
    refused(client, player, "invalid_request", "radius", "largest", procedure="fixed")
    for name in ("adaptive", "sequential"):
        refused(client, player, "invalid_request", "radius", name, procedure=name, radius=None)


def test_a_certification_may_draw_so_many_samples(client: httpx2.Client, player: Player) -> None:
    much = {"name": "fixed", "n": 10**9}
    refused(client, player, "too_many_samples", "1,000,000,100", "200,000,000", procedure=much, radius=None)
    each = {"name": "fixed", "n": 99_999_950}
    images = [text(picture())] * 2
    refused(client, player, "too_many_samples", "200,000,100", procedure=each, radius=None, images=images)


# --- the wrapping


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"a": 1} x',
        b'{"radius": NaN}',
        b'{"radius": Infinity}',
        b'{"radius": -Infinity}',
        b'{"radius": 0.1, "radius": 0.2}',
        b'{"metadata": {"a": "1", "a": "1"}}',
        b"[" * 10_000,
        b'{"a":' * 1000 + b"1" + b"}" * 1000,
        b'{"radius": ' + b"9" * 5000 + b"}",
        '{"radius": 0.1}'.encode("utf-16"),
    ],
)
@pytest.mark.parametrize("path", [URL, "/v1/plan", "/v1/verify"])
def test_malformed_json_is_refused(client: httpx2.Client, body: bytes, path: str) -> None:
    problem(client.post(path, content=body, headers=JSON), "malformed_json")


def test_half_a_character_is_refused(client: httpx2.Client) -> None:
    body = b'{"metadata": {"\\ud800": ""}}'
    problem(client.post(URL, content=body, headers=JSON), "malformed_json")
    problem(client.post("/v1/verify", content=body, headers=JSON), "invalid_certificate")


@pytest.mark.parametrize("body", [b"1", b"null", b"[]", b'"x"', b"{}"])
def test_json_that_is_no_request_is_refused(client: httpx2.Client, body: bytes) -> None:
    problem(client.post(URL, content=body, headers=JSON), "invalid_request")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "x"])
@pytest.mark.parametrize("path", [URL, "/v1/plan", "/v1/verify"])
def test_an_unknown_content_type_is_refused(client: httpx2.Client, kind: str, path: str) -> None:
    answer = client.post(path, content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert "application/json" in problem(answer, "unsupported_media_type").detail


def test_a_packed_body_is_refused(client: httpx2.Client) -> None:
    answer = client.post(URL, content=b"{}", headers={**JSON, "Content-Encoding": "gzip"})
    assert "gzip" in problem(answer, "unsupported_media_type").detail


FORM = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FORM),
        (b"nonsense", FORM),
        (b"--x\r\n", FORM),
        (b'--x\r\nContent-Disposition: form-data; name="images"\r\n\r\nabc', FORM),
        (b"--x\r\nContent-Type: text/plain\r\n\r\nabc\r\n--x--\r\n", FORM),
        (b"--x\r\n" + b"A: b\r\n" * 100 + b"\r\nabc\r\n--x--\r\n", FORM),
        (b"--x--\r\n", {"Content-Type": "multipart/form-data"}),
        (b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=" + "x" * 300}),
    ],
)
def test_a_malformed_form_is_refused(client: httpx2.Client, body: bytes, kind: dict[str, str]) -> None:
    problem(client.post(URL, content=body, headers=kind), "malformed_multipart")


def test_a_form_must_have_its_parts(client: httpx2.Client, player: Player) -> None:
    payload = json.dumps({"ensemble": player.ensemble, "radius": 0.25})
    image: Any = ("images", picture())
    assert "`request`" in problem(client.post(URL, files=[("bild", b"x")]), "invalid_request").detail
    assert "once" in problem(client.post(URL, files=[image]), "invalid_request").detail
    twice = [("request", ("", payload)), ("request", ("", payload)), image]
    assert "2 times" in problem(client.post(URL, files=twice), "invalid_request").detail
    problem(client.post(URL, files=[("request", ("", payload))]), "invalid_request")
    problem(client.post(URL, files=[("request", ("", "{")), image]), "malformed_json")
    problem(client.post(URL, files=[("request", ("", '{"x": 1}')), image]), "invalid_request")


# --- too much


@pytest.fixture(scope="module")
def strict(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A service with small limits."""
    limits = {"request_bytes": 20_000, "request_images": 3, "request_seconds": 1, "request_pixels": 50}
    with Api(valkey.url, tmp_path_factory.mktemp("strict"), **limits, image_pixels=10) as running:
        yield running


def test_a_body_has_so_many_bytes(strict: Api, player: Player) -> None:
    payload = json.dumps(question(player.ensemble, metadata={"x": ""})).encode()
    padded = payload + b" " * (20_000 - len(payload))
    problem(strict.client.post(URL, content=padded + b" ", headers=JSON), "too_large")
    problem(strict.client.post(URL, content=padded, headers=JSON), "invalid_image")  # it was read
    for path in ("/v1/plan", "/v1/verify"):
        problem(strict.client.post(path, content=b" " * 20_001, headers=JSON), "too_large")


def test_the_bytes_are_counted_not_believed(strict: Api) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    problem(strict.client.post(URL, content=chunks(), headers=JSON), "too_large")


def test_a_large_body_gets_its_answer_and_the_connection_lives(strict: Api) -> None:
    for _ in range(2):
        answer = strict.client.post(URL, content=b"x" * 5_000_000, headers=JSON)
        assert "20,000" in problem(answer, "too_large").detail
    assert strict.client.get("/healthz").status_code == 200


def test_a_request_has_so_many_images(strict: Api, player: Player) -> None:
    payload = {"ensemble": player.ensemble, "radius": 0.25}
    four = [text(picture())] * 4
    problem(strict.client.post(URL, json={**payload, "images": four}), "too_many_images")
    form: Any = [("request", ("", json.dumps(payload))), *[("images", picture())] * 4]
    problem(strict.client.post(URL, files=form), "too_many_images")
    query = {"request": json.dumps(payload)}
    array = npy(np.zeros((4, *SHAPE)))
    problem(strict.client.post(URL, params=query, content=array, headers=NPY), "too_many_images")


def test_images_have_so_many_pixels(strict: Api, player: Player) -> None:
    answer = strict.client.post(URL, json=question(player.ensemble))
    assert "more than 10" in problem(answer, "invalid_image").detail
    answer = strict.client.post(URL, json=question(player.ensemble, images=[text(picture())] * 3))
    assert "60" in problem(answer, "too_large").detail


def test_a_body_must_arrive_in_time(strict: Api) -> None:
    with socket.create_connection(("127.0.0.1", strict.port)) as connection:
        head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        connection.sendall(head.encode())
        started = time.monotonic()
        connection.settimeout(PATIENCE_S)
        answer = b""
        while chunk := connection.recv(4096):  # until the connection is closed
            answer += chunk
        assert time.monotonic() - started > 0.5
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code": "too_slow"' in answer


@pytest.mark.parametrize(
    "shape", ["(True, 3, 32, 32)", f"({'1, ' * 100})", "(0, 99999999999999999999999, 32, 32)", "(1, -3, 32, 32)"]
)
def test_a_shape_that_no_array_has_is_refused(client: httpx2.Client, shape: str) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(500) + b"\n"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    problem(client.post(URL, content=body, headers=NPY), "malformed_npy")


def test_a_body_that_owns_up_to_its_size_is_refused_at_once(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_S) as connection:
        connection.sendall(
            b"POST /v1/certifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 999999999999\r\n\r\n"
        )
        assert b" 413 " in connection.recv(4096)


def test_a_sequential_test_that_takes_minutes_to_plan_is_refused(client: httpx2.Client, player: Player) -> None:
    procedure = {"name": "sequential", "max_samples": 1_000_001}
    payload = {"ensemble": player.ensemble, "radius": 0.1, "procedure": procedure}
    answer = client.post("/v1/plan", json=payload)
    assert "1,000,001" in problem(answer, "too_many_samples").detail
