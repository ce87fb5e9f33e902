"""Names and texts in a request never become paths, commands, log lines, headers or addresses."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from models.errors import EnsembleNameError
from models.registry import check_name
from tests.service import eventually
from tests.support.api import Api, picture, problem, question, text
from tests.support.player import Player

URL = "/v1/certifications"
TRICKS = [
    "../../../etc/passwd",
    "..",
    "/etc/passwd",
    "..\\..\\windows",
    "a/../b",
    "%2e%2e%2f",
    "x\0.json",
    "*",
    "x\r\nFLUSHALL\r\n",
    "{x}",
    "a" * 500,
    "\u202egnp",
]
TEXT = 'a\r\nX-Evil: 1\r\n\r\n{"level": "forged"}\x1b[31m\x00\x7f\u2028\u202e<script>alert(1)</script>'


@pytest.mark.parametrize("name", TRICKS)
def test_a_name_is_no_path(client: httpx2.Client, player: Player, name: str) -> None:
    for where in ("/v1/ensembles/", "/page/", f"{URL}/"):
        answer = client.get(
            where + quote(name, safe="").replace(".", "%2e")
        )  # otherwise the client would resolve the dots
        assert answer.status_code == 404, answer.text
        assert "root:" not in answer.text
    problem(client.post(URL, json=question(name)), "invalid_request")
    with pytest.raises(EnsembleNameError):
        check_name(name)


@pytest.mark.parametrize("cursor", [*TRICKS, "MQ==", "bnVsbA==", "0:x"])
def test_a_cursor_of_ones_own_is_refused(client: httpx2.Client, cursor: str) -> None:
    problem(client.get(URL, params={"cursor": cursor}), "invalid_request")


def logged(api: Api, request_id: str) -> dict[str, Any]:
    """The log line of this request; every line of the log must be JSON in printable ASCII."""

    def found() -> list[dict[str, Any]]:
        raw = api.log.read_bytes()
        assert all(byte == 0x0A or 0x20 <= byte < 0x7F for byte in raw)
        lines = [json.loads(line) for line in raw.splitlines()]
        assert all(line["level"] != "forged" for line in lines)
        return [line for line in lines if line.get("request_id") == request_id]

    return eventually(found)[0]


def test_a_file_name_is_nothing_but_a_name(api: Api, player: Player) -> None:
    name = '../../x"; name="request\r\nX-Evil: 1'
    body = (
        b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
        + json.dumps({"ensemble": player.ensemble, "radius": 0.25}).encode()
        + b'\r\n--x\r\nContent-Disposition: form-data; name="images"; filename="../../etc/cron.d/x\x1b[31m.png"\r\n\r\n'
        + picture()
        + b"\r\n--x--\r\n"
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x", "X-Request-ID": f"{player.name}-file"}
    answer = api.client.post(URL, content=body, headers=headers)
    assert answer.status_code == 202, answer.text
    player.play()
    assert "cron" not in json.dumps(logged(api, f"{player.name}-file"))
    form: Any = {
        "request": (None, json.dumps({"ensemble": player.ensemble, "radius": 0.25})),
        "images": (name, picture()),
    }
    assert api.client.post(URL, files=form).status_code in (202, 400, 422)


def test_metadata_come_back_as_they_were_and_go_nowhere_else(api: Api, player: Player) -> None:
    metadata = {TEXT[:64]: TEXT}
    body = question(player.ensemble, metadata=metadata)
    answer = api.client.post(URL, json=body, headers={"X-Request-ID": f"{player.name}-meta"})
    assert answer.status_code == 202, answer.text
    player.play()
    fetched = api.client.get(answer.headers["location"])
    assert fetched.json()["request"]["metadata"] == metadata
    assert fetched.headers["content-type"] == "application/json"
    for each in (answer, fetched):
        assert "x-evil" not in each.headers
    with api.client.stream("GET", f"{answer.headers['location']}/events") as stream:
        lines = stream.read().split(b"\n")
    assert all(line.partition(b":")[0] in (b"", b"event", b"id", b"data", b"retry") for line in lines)
    assert "forged" not in json.dumps(logged(api, f"{player.name}-meta"))


@pytest.mark.parametrize("place", ["path", "id", "ensemble", "field", "idempotency", "key"])
def test_no_text_of_a_request_forges_a_line_of_the_log(api: Api, player: Player, place: str) -> None:
    request_id = f"{player.name}-{place}"
    headers, sent = {"X-Request-ID": request_id}, quote(TEXT, safe="")
    match place:
        case "path":
            api.client.get(f"/{sent}", headers=headers)
        case "id":
            api.client.get(f"{URL}/{sent}", headers=headers)
        case "ensemble":
            api.client.get(f"/v1/ensembles/{sent}", headers=headers)
        case "field":
            api.client.post(URL, json={TEXT: TEXT}, headers=headers)
        case "idempotency":
            api.client.post(URL, json=question(player.ensemble), headers={**headers, "Idempotency-Key": sent[:200]})
            player.play()
        case "key":
            api.client.get(URL, headers={**headers, "Authorization": f"Bearer {sent}"})
    line = logged(api, request_id)
    assert line["status"]
    assert place in ("path", "id", "ensemble") or "forged" not in json.dumps(line)


def test_an_address_is_no_image(client: httpx2.Client, player: Player) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.5)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/image.png"
        for image in ({"url": url}, {"dtype": "uint8", "shape": [3, 4, 5], "data": "", "url": url}, {"$ref": url}):
            problem(client.post(URL, json=question(player.ensemble, images=[image])), "invalid_request")
        for image in (url, "file:///etc/passwd", "/etc/passwd", "//127.0.0.1/x"):
            problem(client.post(URL, json=question(player.ensemble, images=[image])), "invalid_image")
            answer = client.post(URL, json=question(player.ensemble, images=[text(image.encode())]))
            assert "root:" not in problem(answer, "invalid_image").detail  # /etc/passwd begins with this
        for name in ("url", "image_url", "callback", "webhook"):
            problem(client.post(URL, json=question(player.ensemble, **{name: url})), "invalid_request")
        with pytest.raises(TimeoutError):
            listening.accept()
    assert player.waiting() == []
