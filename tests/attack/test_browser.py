"""A foreign page in the browser of somebody who runs the service: its names, its origin, what our pages may load."""

from __future__ import annotations

import json
import re

import httpx2
import pytest

from app.http.middleware import PROBES
from tests.support.api import ROOT, Api, picture, problem, question
from tests.support.player import Player

URL = "/v1/certifications"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "x", "", "["]
)
def test_a_name_that_only_points_here_is_refused(client: httpx2.Client, host: str) -> None:
    for method, path in (("GET", "/"), ("GET", URL), ("POST", URL), ("GET", "/nothing")):
        detail = problem(client.request(method, path, headers={"Host": host}), "misdirected").detail
        assert repr(host) in detail
        assert "SMOOTHCERT_ALLOWED_HOSTS" in detail


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8000", "192.0.2.7"])
def test_addresses_and_localhost_are_names_of_every_service(client: httpx2.Client, host: str) -> None:
    assert client.get("/v1/version", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", sorted(PROBES))
def test_probes_may_call_it_anything(client: httpx2.Client, path: str, player: Player) -> None:
    assert client.get(path, headers={"Host": "pod.cluster.local"}).status_code == 200


def test_names_can_be_allowed(odd: Api) -> None:
    for host in ("api:8000", "smooth.example"):
        assert odd.client.get("/v1/version", headers={"Host": host}).status_code == 200
    problem(odd.client.get("/v1/version", headers={"Host": "other.example"}), "misdirected")


def test_with_keys_any_name_will_do(locked: Api) -> None:
    headers = {"Host": "evil.example", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    problem(locked.client.post(URL, headers=headers), "unauthorized")


OTHERS = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://["},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
]


@pytest.mark.parametrize("headers", OTHERS)
def test_a_page_of_another_origin_changes_nothing(api: Api, player: Player, headers: dict[str, str]) -> None:
    payload = question(player.ensemble)
    form = {"request": (None, json.dumps({"radius": 0.25, "ensemble": player.ensemble})), "images": picture()}
    for answer in (
        api.client.post(URL, json=payload, headers=headers),
        api.client.post(URL, files=form, headers=headers),  # a browser sends this without asking first
        api.client.post(f"{URL}/x/cancel", headers=headers),
        api.client.delete(f"{URL}/x", headers=headers),
    ):
        problem(answer, "cross_site")
    assert player.waiting() == []


def test_a_form_as_text_is_refused_from_everywhere(client: httpx2.Client, player: Player) -> None:
    answer = client.post(URL, json=question(player.ensemble), headers={"Content-Type": "text/plain"})
    problem(answer, "unsupported_media_type")
    assert player.waiting() == []


def test_pages_of_ones_own_and_programs_are_let_in(api: Api, player: Player) -> None:
    here = f"http://127.0.0.1:{api.port}"
    for headers in (
        {},
        {"Origin": here},
        {"Origin": here, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert api.client.post(URL, json=question(player.ensemble), headers=headers).status_code == 202
        player.play()


def test_an_origin_that_is_named_may_post(odd: Api, player: Player) -> None:
    good = {"Origin": "https://good.example", "Sec-Fetch-Site": "cross-site"}
    answer = odd.client.post(URL, json=question(player.ensemble), headers=good)
    assert answer.status_code == 202
    assert answer.headers["access-control-allow-origin"] == "https://good.example"
    player.play()
    problem(odd.client.post(URL, headers={**good, "Origin": "https://good.example.evil"}), "cross_site")


def test_by_default_no_other_origin_may_read(client: httpx2.Client) -> None:
    for path in ("/", URL, "/metrics", "/openapi.json", "/nothing"):
        headers = client.get(path, headers={"Origin": "https://evil.example"}).headers
        assert not [name for name in headers if name.startswith("access-control-")]
        assert headers["cross-origin-resource-policy"] == "same-origin"
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    problem(client.options(URL, headers=preflight), "method_not_allowed")


def test_pages_have_no_inline_script_or_style() -> None:
    pages = sorted((ROOT / "app" / "page").glob("*.html"))
    assert pages
    for page in pages:
        text = page.read_text()
        for script in re.findall(r"<script[^>]*>[^<]*", text):
            assert re.fullmatch(r'<script[^>]* src="/[^"]+"[^>]*>\s*', script), f"{page.name}: {script}"
        assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text), page.name


def test_scripts_of_the_pages_make_no_code_of_text() -> None:
    scripts = sorted((ROOT / "app" / "page").glob("*.js"))
    assert scripts
    for script in scripts:
        found = re.findall(
            r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", script.read_text()
        )
        assert not found, f"{script.name}: {found}"
