"""Signed certificates over HTTP, the keys that check them, and the examination of a file without an account."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.__main__ import main
from app.http.visitors import VISITS
from app.local.embedded import EmbeddedServer
from app.routes.examination import Budget
from smoothcert.attestation.envelope import MEDIA_TYPE
from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.keys import KeySet
from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError
from smoothcert.examination import examine
from smoothcert.problem import Failure
from smoothcert.procedures import Sequential
from smoothcert.published import ExaminationAnswer
from store.settings import WRONG_SETTINGS
from tests.service import database
from tests.support.api import ROOT, Api, problem, question
from tests.support.attested import LATER, complete, resigned, sealed
from tests.support.owners import ENTRIES
from tests.support.player import Player

URL, KEYS, EXAMINE = "/v1/certifications", "/.well-known/smoothcert-keys.json", "/v1/examine"
SIGNED = {"Accept": MEDIA_TYPE}
COMPLETE = (complete(0, index=0), complete(1, index=1))


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keyring"
    assert main(["keygen", "--name", "a test", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def signing(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory, keyring: Path) -> Iterator[Api]:
    """A service with keys of both kinds; the tests here send none."""
    folder = tmp_path_factory.mktemp("signing")
    with Api(valkey.url, folder, keyring_file=keyring) as running:
        yield running


@pytest.fixture(scope="module")
def locked(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory, keyring: Path) -> Iterator[Api]:
    url = database(valkey.url, 6)
    with Api(url, tmp_path_factory.mktemp("locked"), keyring_file=keyring, api_keys=",".join(ENTRIES)) as running:
        yield running


def ended(api: Api, player: Player, *certificates: Certificate) -> str:
    """The path of a certification that ended with these certificates."""
    images = question(player.ensemble)["images"] * max(1, len(certificates))
    accepted = api.client.post(URL, json=question(player.ensemble, images=images)).json()
    record = player.begin(player.take())
    texts = {index: each.model_dump_json() for index, each in enumerate(certificates)}
    if certificates:
        player.finish(record, texts)
    else:
        player.finish(record, {}, status="failed", error=Failure(code="internal", detail="as the test wants it"))
    return f"{URL}/{accepted['id']}"


def published(api: Api) -> KeySet:
    return KeySet.from_json(api.client.get(KEYS).content)


def test_every_certificate_is_fetched_as_an_attestation(signing: Api, player: Player) -> None:
    here = ended(signing, player, *COMPLETE)
    answer = signing.client.get(here, headers=SIGNED)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    found = examine(answer.content, published(signing))
    assert found.problems == ()
    assert (found.certificates, found.signed.holds) == (2, True)
    assert found.signed.sentence.startswith("By a test, with the key ")
    as_json = signing.client.get(here).json()["certificates"]
    assert [each["digest"] for each in as_json] == [each.digest for each in COMPLETE]
    assert signing.client.get(here, headers=SIGNED).content == answer.content, "the same signature again"


@pytest.mark.parametrize(
    ("accept", "signed"),
    [
        (f"{MEDIA_TYPE}, application/json;q=0.5", True),
        (f"{MEDIA_TYPE};q=0.5, application/json", False),
        (f"{MEDIA_TYPE};q=0", False),
        ("*/*", False),
        ("application/json", False),
    ],
)
def test_the_accept_header_chooses(signing: Api, player: Player, accept: str, signed: bool) -> None:
    answer = signing.client.get(ended(signing, player, COMPLETE[0]), headers={"Accept": accept})
    assert answer.headers["content-type"] == (MEDIA_TYPE if signed else "application/json")


def test_what_is_not_at_its_end_is_not_signed(signing: Api, player: Player) -> None:
    accepted = signing.client.post(URL, json=question(player.ensemble)).json()
    problem(signing.client.get(f"{URL}/{accepted['id']}", headers=SIGNED), "still_running")


def test_what_has_no_certificate_is_not_signed(signing: Api, player: Player) -> None:
    refused = problem(signing.client.get(ended(signing, player), headers=SIGNED), "not_acceptable")
    assert "without a certificate" in refused.detail
    bare = COMPLETE[0].model_copy(update={"provenance": None})
    bare = bare.model_copy(update={"digest": bare.expected_digest()})
    refused = problem(signing.client.get(ended(signing, player, bare), headers=SIGNED), "not_acceptable")
    assert "provenance is null" in refused.detail


def test_what_was_damaged_in_redis_is_not_signed(signing: Api, player: Player) -> None:
    altered = COMPLETE[0].model_copy(update={"radius": 0.9})
    problem(signing.client.get(ended(signing, player, altered), headers=SIGNED), "internal")


def test_a_service_without_a_key_says_so(api: Api, player: Player) -> None:
    refused = problem(api.client.get(ended(api, player, COMPLETE[0]), headers=SIGNED), "not_acceptable")
    assert "SMOOTHCERT_KEYRING_FILE" in refused.detail
    assert published(api).keys == ()


# --- keys


def test_a_key_is_rotated_and_revoked_on_the_command_line(
    signing: Api, player: Player, keyring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signing.client.get(ended(signing, player, COMPLETE[0]), headers=SIGNED).content
    path = tmp_path / "keyring"
    path.write_bytes(keyring.read_bytes())
    path.chmod(0o440)
    command = [sys.executable, "-m", "app", "keygen", "--rotate", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    ring = Keyring.read(path)
    assert done.stdout.startswith(f"{path} signs for 'a test' with the key {ring.public.keyid} ")
    assert path.stat().st_mode & 0o777 == 0o440
    assert ring.private not in done.stdout
    with Api(signing.redis_url, tmp_path, keyring_file=path) as rotated:
        keys = published(rotated)
    assert [key.not_after is None for key in keys.keys] == [True, False]
    assert examine(before, keys), "the old key still vouches for what it signed"
    assert main(["keygen", "--revoke", str(path)]) == 0
    assert examine(before, Keyring.read(path).published), "another key was revoked"
    assert main(["keygen", "--revoke-retired", Keyring.read(keyring).public.keyid, str(path)]) == 0
    assert "was revoked" in examine(before, Keyring.read(path).published).signed.sentence
    revoked = Keyring.read(keyring).rotated(LATER, revoked=True)
    assert "was revoked" in examine(before, revoked.published).signed.sentence


def test_a_key_is_not_overwritten(keyring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = keyring.read_bytes()
    assert main(["keygen", str(keyring)]) == 1
    assert "exists already: --rotate or --revoke" in capsys.readouterr().err
    assert keyring.read_bytes() == before


def test_public_keys_are_written_as_a_service_publishes_them(
    signing: Api, keyring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, public = keyring.read_bytes(), tmp_path / "keys.json"
    assert main(["keygen", "--public", str(public), str(keyring)]) == 0
    assert f"{public} has the public keys" in capsys.readouterr().out
    assert KeySet.from_json(public.read_bytes()) == published(signing)
    assert keyring.read_bytes() == before
    assert main(["keygen", "--public", str(keyring), str(keyring)]) == 1
    assert keyring.read_bytes() == before, "the secret was overwritten"
    assert main(["keygen", "--name", "an auditor", "--public", str(public), str(tmp_path / "mine")]) == 0
    assert KeySet.from_json(public.read_bytes()) == Keyring.read(tmp_path / "mine").published


def test_keygen_shows_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["keygen", "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--name", "--rotate", "--revoke", "--revoke-retired", "--public"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--public", "{folder}/keys.json", "{folder}/missing"], "cannot be read: No such file"),
        (["--rotate", "{folder}/missing"], "cannot be read: No such file"),
        (["--revoke-retired", "0" * 64, "{folder}/missing"], "cannot be read: No such file"),
        (["--name", "", "{folder}/new"], "name: String should have at least 1 character"),
        (["--other", "{folder}/new"], "usage: python -m app keygen"),
        (["{folder}/no/folder"], "cannot write the keyring"),
    ],
)
def test_what_cannot_be_made_is_a_sentence(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keygen", *(each.format(folder=tmp_path) for each in arguments)]) == 1
    assert words in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_service_does_not_start_with_a_keyring_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keyring"
    monkeypatch.setenv("SMOOTHCERT_KEYRING_FILE", str(file))
    assert main([]) == WRONG_SETTINGS
    assert "the keyring cannot be read" in capsys.readouterr().err
    file.write_text("secret of another kind")
    assert main([]) == WRONG_SETTINGS
    shown = capsys.readouterr().err
    assert f"smoothcert: {file} is not a keyring: the text cannot be read" in shown
    assert "another kind" not in shown


# --- examination, without an account


def examined(api: Api, content: bytes) -> ExaminationAnswer:
    answer = api.client.post(EXAMINE, content=content)
    assert answer.status_code == 200, answer.text
    return ExaminationAnswer.model_validate_json(answer.content)


def test_anybody_may_have_a_file_examined(locked: Api, keyring: Path) -> None:
    text = sealed(COMPLETE[0], Keyring.read(keyring))
    found = examined(locked, text.encode())
    assert found.consistent
    assert (found.signed.holds, found.unaltered.holds, found.follows.holds) == (True, True, True)
    assert found.claims == (
        "No perturbation of Euclidean length below 0.252793, with float32 taken for real numbers, changes the answer "
        "'ship', with 99.9 % confidence.",
    )
    altered = examined(locked, text.replace("A", "B", 1).encode())
    assert not altered.consistent
    assert altered.claims == ()
    bare = examined(locked, COMPLETE[0].to_json().encode())
    assert bare.consistent
    assert (bare.signed.holds, bare.unaltered.holds, bare.follows.holds) == (None, True, True)
    assert not examined(locked, b"\xff\x00 nonsense").consistent


def test_keys_open_nothing_more_there(locked: Api) -> None:
    headers = {"Authorization": "Bearer nonsense"}
    assert locked.client.post(EXAMINE, content=b"{}", headers=headers).status_code == 200


def test_a_file_does_not_keep_others_waiting(locked: Api) -> None:
    slow = resigned(COMPLETE[1].model_copy(update={"procedure": Sequential(max_samples=2_000_000)}))
    found = examined(locked, "\n".join(each.model_dump_json() for each in (COMPLETE[0], slow)).encode())
    assert [each.partition(": is not verified here")[0] for each in found.problems] == ["line 2"]
    problem(locked.client.post(EXAMINE, content=b"[" * 200_000), "too_large")
    problem(locked.client.post(EXAMINE, content=b"x" * 5_000_000), "too_large")


def test_an_address_may_send_some_files_at_a_time(valkey: EmbeddedServer, tmp_path: Path, keyring: Path) -> None:
    with Api(database(valkey.url, 7), tmp_path, api_keys=",".join(ENTRIES)) as api:
        answers = [api.client.post(EXAMINE, content=b"{}") for _ in range(VISITS.uses + 5)]
    refused = [each for each in answers if each.status_code != 200]
    assert refused
    assert all(each.status_code == 200 for each in answers[: VISITS.uses])
    for each in refused:
        problem(each, "too_many_requests")
        assert int(each.headers["retry-after"]) >= 1


def test_boundaries_are_paid_for_once() -> None:
    budget, bare = Budget(1000), COMPLETE[0]
    first = bare.model_copy(update={"procedure": Sequential(max_samples=600)})
    for _ in range(3):
        budget.spend(first)
        budget.spend(bare)
    with pytest.raises(DomainError, match="more than 1,000 samples"):
        budget.spend(bare.model_copy(update={"procedure": Sequential(max_samples=500)}))


def test_a_foreign_page_cannot_use_an_open_service(signing: Api) -> None:
    headers = {"Origin": "https://example.org", "Sec-Fetch-Site": "cross-site"}
    problem(signing.client.post(EXAMINE, content=b"{}", headers=headers), "cross_site")
