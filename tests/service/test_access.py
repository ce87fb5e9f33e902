"""Which keys are accepted, and what each of them may see."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis

from app.__main__ import main
from app.http.authentication import MOST_FAILURES, Authenticator, Keys, KeysError
from app.http.errors import ProblemError
from app.local.embedded import EmbeddedServer
from store import keys
from store.allowances import Allowance, spend
from store.settings import WRONG_SETTINGS
from tests.service import database, eventually
from tests.support.api import ROOT, Api, problem, question
from tests.support.owners import ALICE, BOB, ENTRIES, bearer
from tests.support.player import Player

URL = "/v1/certifications"


@pytest.fixture(scope="module")
def locked(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(valkey.url, tmp_path_factory.mktemp("locked"), api_keys=",".join(ENTRIES)) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", URL),
        ("GET", URL),
        ("GET", f"{URL}/x"),
        ("DELETE", f"{URL}/x"),
        ("GET", f"{URL}/x/events"),
        ("POST", f"{URL}/x/cancel"),
        ("GET", "/v1/ensembles"),
        ("GET", "/v1/ensembles/x"),
        ("GET", "/v1/procedures"),
        ("GET", "/v1/noises"),
        ("POST", "/v1/plan"),
        ("POST", "/v1/verify"),
        ("GET", "/metrics"),
    ],
)
def test_without_a_key_everything_of_value_is_closed(locked: Api, method: str, path: str) -> None:
    answer = locked.client.request(method, path, content=b"x" * 100)
    problem(answer, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="smoothcert"'


@pytest.mark.parametrize("path", ["/healthz", "/v1/version", "/", "/docs", "/openapi.json"])
def test_what_is_for_everybody_is_open(locked: Api, path: str) -> None:
    assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize("value", ["", "Bearer", "Basic abc", ALICE])
def test_what_is_no_bearer_token_is_no_guess(locked: Api, value: str) -> None:
    problem(locked.client.get(URL, headers={"Authorization": value}), "unauthorized")


def test_owners_see_their_own_and_nothing_else(locked: Api, player: Player) -> None:
    certification = locked.client.post(URL, json=question(player.ensemble), headers=bearer(ALICE)).json()
    here = f"{URL}/{certification['id']}"
    assert locked.client.get(here, headers=bearer(ALICE)).status_code == 200
    assert player.record(certification["id"]).owner == "alice"
    for answer in (
        locked.client.get(here, headers=bearer(BOB)),
        locked.client.get(f"{here}/events", headers=bearer(BOB)),
        locked.client.post(f"{here}/cancel", headers=bearer(BOB)),
        locked.client.delete(here, headers=bearer(BOB)),
    ):
        problem(answer, "unknown_certification")
    assert certification["id"] not in locked.client.get(URL, headers=bearer(BOB)).text
    assert certification["id"] in locked.client.get(URL, headers=bearer(ALICE)).text
    assert player.record(certification["id"]).status == "queued"


def test_idempotency_keys_belong_to_their_owner(locked: Api, player: Player) -> None:
    ids = set()
    for key in (ALICE, BOB):
        headers = {**bearer(key), "Idempotency-Key": player.name}
        ids.add(locked.client.post(URL, json=question(player.ensemble), headers=headers).json()["id"])
    assert len(ids) == 2


def test_keys_are_in_no_log(locked: Api) -> None:
    locked.client.get(f"{URL}?token={ALICE}", headers={**bearer(ALICE), "X-Request-ID": "in-no-log"})
    log = eventually(lambda: "in-no-log" in (text := locked.log.read_text()) and text)
    assert '"owner": "alice"' in log
    assert ALICE not in log
    assert ENTRIES[0].partition(":")[2] not in log


def test_a_client_that_tries_keys_has_to_wait(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """Two processes count together. Mutant killed: an allowance of wrong keys in each process."""
    url, entries = database(valkey.url, 3), ",".join(ENTRIES)
    with Api(url, tmp_path, api_keys=entries) as api, Api(url, tmp_path, api_keys=entries) as other:
        for number in range(MOST_FAILURES):
            problem((api, other)[number % 2].client.get(URL, headers=bearer(f"sk_{number}")), "unauthorized")
        problem(api.client.get(URL, headers=bearer("sk_other")), "too_many_failures")
        answer = other.client.get(URL, headers=bearer("sk_other"))
        problem(answer, "too_many_failures")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        problem(other.client.get(URL, headers=bearer(ALICE)), "too_many_failures")
        problem(other.client.get(URL), "unauthorized")
        assert other.client.get("/healthz").status_code == 200


class Redis:
    """The allowance of wrong keys in a real server, as the API uses it."""

    def __init__(self, url: str) -> None:
        self.client: Any = redis.Redis.from_url(url)

    async def spend(self, allowance: Allowance, member: str, wanted: int = 1) -> tuple[int, float]:
        given, seconds = self.client.eval(*spend(allowance, member, wanted).arguments)
        return given, float(seconds)


def guess(authenticator: Authenticator, key: str, address: str) -> str:
    return asyncio.run(authenticator.owner(f"Bearer {key}", address))


def test_the_wait_ends_after_seconds(valkey: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now, server = 1000.0, Redis(database(valkey.url, 4))
    monkeypatch.setattr("app.http.authentication.time.monotonic", lambda: now)
    authenticator = Authenticator(Keys.read(",".join(ENTRIES)), server, rate=0, requests=1)  # type: ignore[arg-type]
    for _ in range(MOST_FAILURES):
        with pytest.raises(ProblemError, match="unauthorized"):
            guess(authenticator, "wrong", "1.2.3.4")
    with pytest.raises(ProblemError, match="too_many_failures"):
        guess(authenticator, ALICE, "1.2.3.4")
    assert guess(authenticator, ALICE, "5.6.7.8") == "alice"
    now += 6.1
    assert guess(authenticator, BOB, "1.2.3.4") == "bob"


def test_addresses_are_not_remembered_without_end(valkey: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Redis(database(valkey.url, 5))
    monkeypatch.setattr("app.http.authentication.MOST_ADDRESSES", 3)
    monkeypatch.setattr("app.http.authentication.FAILURES", Allowance(keys.FAILURES, 60.0, 1, members=3))
    authenticator = Authenticator(Keys.read(ENTRIES[0]), server, rate=0, requests=1)  # type: ignore[arg-type]
    for number in range(10):
        with pytest.raises(ProblemError, match="unauthorized"):
            guess(authenticator, "wrong", str(number))
    assert len(authenticator._refused) == 3
    assert server.client.zcard(keys.FAILURES) == 3


def test_keys_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\n" + "\n".join(ENTRIES) + "\n")
    assert Keys.read(str(file)) == Keys.read(", ".join(ENTRIES))
    assert Keys.read(str(file)).owner(BOB) == "bob"
    assert not Keys.read("")


def test_an_entry_may_give_the_right_to_priority() -> None:
    keys = Keys.read(f"{ENTRIES[0]},{ENTRIES[1]}:high")
    assert (keys.may_hurry("alice"), keys.may_hurry("bob")) == (False, True)
    assert keys.owner(BOB) == "bob"
    assert Keys.read("").may_hurry("anonymous")


@pytest.mark.parametrize(
    "setting",
    [
        "anonymous:" + "0" * 64,
        f"{ENTRIES[0]}:low",
        "/nowhere/at/all",
        "a:b,c:d",
        f"{ENTRIES[0]},{ENTRIES[0]}",
        ENTRIES[0].upper() + ",x",
    ],
)
def test_keys_that_cannot_be_read_are_refused(setting: str) -> None:
    with pytest.raises(KeysError):
        Keys.read(setting)


@pytest.mark.parametrize("setting", [",", "FILE"])
def test_a_place_for_keys_without_a_key_opens_nothing(tmp_path: Path, setting: str) -> None:
    (tmp_path / "keys").write_text("# none yet\n")
    with pytest.raises(KeysError, match="there is none"):
        Keys.read(setting.replace("FILE", str(tmp_path / "keys")))


# --- the command


@dataclass(frozen=True)
class Done:
    """The output of a command and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`python -m app` with these arguments and settings, run in this process, because imports take most of the time."""

    def run(*arguments: str, **settings: str) -> Done:
        with monkeypatch.context() as environment:
            for name, value in settings.items():
                environment.setenv(f"SMOOTHCERT_{name.upper()}", value)
            code = main(arguments)
        return Done(code, *capsys.readouterr())

    return run


def test_a_new_key_opens_what_its_line_sets_up(command: Callable[..., Done]) -> None:
    printed = subprocess.run([sys.executable, "-m", "app", "key", "carol"], capture_output=True, text=True, cwd=ROOT)
    key, line = (each.split()[-1] for each in printed.stdout.splitlines())
    assert Keys.read(line).owner(key) == "carol"
    assert command("key", "carol").stdout != printed.stdout


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a:b"])
def test_a_bad_name_is_refused(command: Callable[..., Done], name: str) -> None:
    done = command("key", name)
    assert done.returncode == 1
    assert repr(name) in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_keys_only_this_machine_is_listened_to(command: Callable[..., Done], host: str) -> None:
    done = command(host=host)
    assert done.returncode == WRONG_SETTINGS
    assert host in done.stderr
    assert "SMOOTHCERT_API_KEYS" in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_settings_are_said_in_a_sentence(command: Callable[..., Done]) -> None:
    for settings in ({"port": "many"}, {"api_keys": "nonsense"}, {"redis_url": "http://x"}, {"samples": "0"}):
        done = command(**settings)
        assert done.returncode == WRONG_SETTINGS
        assert done.stderr.startswith("smoothcert: ")
        assert "Traceback" not in done.stderr
    assert command("nonsense").returncode == 2


def test_an_open_service_says_so(valkey: EmbeddedServer, tmp_path: Path, api: Api) -> None:
    assert "no API keys are set up" in api.log.read_text()
    with Api(valkey.url, tmp_path, host="0.0.0.0", open="true") as wide:
        assert httpx2.get(f"http://127.0.0.1:{wide.port}/healthz").status_code == 200
        assert "no API keys are set up" in wide.log.read_text()
