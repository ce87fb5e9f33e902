"""`smoothcert certify`, `ensembles` and `watch`, against a whole service."""

from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from smoothcert import Client, __version__
from smoothcert.certificate import Certificate
from smoothcert.certification import Progress
from smoothcert.cli import bar, watch
from smoothcert.noise import Gaussian, RoundedGaussian
from smoothcert.problem import KINDS, type_uri
from smoothcert.procedures import PROCEDURES
from smoothcert.verification import verify
from tests.service import eventually
from tests.support.command import (
    ENDLESSLY,
    QUICKLY,
    begun,
    on_a_terminal,
    one_sentence,
    png,
    smoothcert,
    smoothcert_process,
)
from tests.support.questions import DARK, ENDLESS, LIGHT, QUICK
from tests.support.rogue import Rogue, changed, drop, refuse, reply

ESCAPE = "\x1b"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a few images."""
    for name, value in (("dark", 0), ("light", 255), ("grey", 122)):
        (tmp_path / f"{name}.png").write_bytes(png(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its heading."""
    lines = [line.strip() for line in table.splitlines() if re.match(r"^ [^ ─]", line)]
    return [re.split(r"\s{2,}", line) for line in lines[1:]]


def newest(client: Client) -> Any:
    return next(client.certifications.list(), None)


def problem(code: str, detail: str) -> Any:
    status, title = KINDS[code].status, KINDS[code].title
    payload = {"type": type_uri(code), "title": title, "status": status, "detail": detail, "code": code}
    return reply(status, {**payload, "request_id": "r1", "errors": []})


# --- certify


def test_a_row_for_each_image_in_their_order(service: str, folder: Path) -> None:
    done = smoothcert_process("certify", "light.png", "dark.png", *QUICKLY, url=service)
    assert done.returncode == 0, done.stderr
    light, dark = rows(done.stdout)
    assert light == ["light.png", "certified", "light", "0.02", "0.8413 to 1.0000", "164", "328"]
    assert dark[:4] == ["dark.png", "certified", "dark", "0.02"]
    assert ESCAPE not in done.stdout + done.stderr


def test_one_image_is_also_told_in_words(service: str, folder: Path) -> None:
    done = smoothcert("certify", "light.png", *QUICKLY, url=service)
    assert (
        "No perturbation of Euclidean length below 0.02, among 8-bit images, changes the answer 'light'" in done.stdout
    )


def test_an_abstention_has_an_exit_code_of_its_own(service: str, folder: Path) -> None:
    done = smoothcert("certify", "dark.png", "grey.png", *QUICKLY, "--radius", 0.05, url=service)
    assert done.returncode == 3, done.stderr
    assert [row[1] for row in rows(done.stdout)] == ["certified", "abstain"]
    assert not done.stderr


def test_json_is_what_verify_reads(service: str, folder: Path) -> None:
    done = smoothcert("certify", "dark.png", "light.png", *QUICKLY, "--json", "--out", "kept.jsonl", url=service)
    found = [Certificate.from_json(line) for line in done.stdout.splitlines()]
    assert [each.class_name for each in found] == ["dark", "light"]
    assert all(map(verify, found))
    assert Path("kept.jsonl").read_text() == done.stdout
    checked = smoothcert("verify", "kept.jsonl")
    assert (checked.returncode, checked.stdout) == (0, "consistent  kept.jsonl (2 certificates)\n")


@pytest.mark.parametrize(
    ("noise", "mismatch"),
    [
        (("--sigma", "0.02"), "--allow-sigma-mismatch"),
        (("--noise", "gaussian:sigma=0.02"), "--allow-noise-mismatch"),
        (("--noise", '{"name": "gaussian", "sigma": 0.02}'), "--allow-noise-mismatch"),
    ],
)
def test_everything_that_is_asked_arrives(
    service: str, client: Client, folder: Path, noise: tuple[str, ...], mismatch: str
) -> None:
    options = {"alpha": 0.002, "beta": 0.003, "voting": "hard", "consensus": 1, "convert": "rgb"}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    procedure = {"name": "adaptive", "stages": [100, 5000]}
    fields = ("--ensemble", "trivial", "--radius", 0.01, "--procedure", json.dumps(procedure))
    done = smoothcert("certify", "dark.png", *fields, *flags, *noise, "--family-wise", mismatch, url=service)
    assert done.returncode == 0, done.stderr
    request = newest(client).request
    assert {name: getattr(request, name) for name in options} == options
    assert (request.radius, request.family_wise, request.allow_noise_mismatch) == (0.01, True, True)
    assert request.noise == (RoundedGaussian(0.02) if "--sigma" in noise else Gaussian(0.02))
    assert request.procedure.stages == (100, 5000)


def test_a_decimal_comma_is_understood_and_what_is_no_number_is_named(service: str, folder: Path) -> None:
    options = [each.replace("0.02", "0,02") for each in QUICKLY]
    done = smoothcert("certify", "light.png", *options, "--json", url=service)
    assert json.loads(done.stdout)["target_radius"] == 0.02
    refused = smoothcert("certify", "light.png", "--radius", "far")
    assert refused.returncode == 2
    assert "'far' is not a number" in refused.stderr


def test_without_a_terminal_a_long_wait_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bar.err, "_force_terminal", False)
    report = bar.lines()
    assert report is not None
    done = Progress(images_done=3, images_total=10, samples=12_345, evaluations=20_000, certified=1)
    report(done)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(bar, "LINE_S", 0.0)
    report(done)
    assert capsys.readouterr().err == "3 of 10 images done, 12,345 samples\n"


def test_the_address_may_be_an_option(service: str, folder: Path) -> None:
    away = {"SMOOTHCERT_URL": "http://127.0.0.1:9"}
    assert smoothcert("certify", "dark.png", *QUICKLY, "--url", service, env=away).returncode == 0


def test_the_key_may_be_an_option_or_in_the_environment(rogue: Rogue) -> None:
    smoothcert("ensembles", "--api-key", "one", url=rogue.url)
    smoothcert("ensembles", url=rogue.url, env={"SMOOTHCERT_API_KEY": "two"})
    headers = [{name.lower(): value for name, value in seen.headers.items()} for seen in rogue.seen]
    assert [each["authorization"] for each in headers] == ["Bearer one", "Bearer two"]


def test_a_terminal_sees_a_bar_and_colours(service: str, folder: Path) -> None:
    code, seen = on_a_terminal("certify", "dark.png", *QUICKLY, url=service)
    assert code == 0
    assert f"{ESCAPE}[32mcertified" in seen
    assert "certifying" in seen
    _, without = on_a_terminal("certify", "dark.png", *QUICKLY, url=service, NO_COLOR="1")
    assert f"{ESCAPE}[32m" not in without


def test_names_are_shown_as_they_are_and_obeyed_by_nobody(service: str, folder: Path) -> None:
    odd = ["[red]x.png", "\x1b[2Jx.png", b"\xff.png".decode(errors="surrogateescape")]
    for name in odd:
        Path(name).write_bytes(png(0))
    done = smoothcert("certify", *odd, *QUICKLY, url=service)
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in rows(done.stdout)] == ["[red]x.png", "?[2Jx.png", "?.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.png", *QUICKLY], "cannot read the image 'nothing.png': No such file"),
        (["words.png", *QUICKLY], "images.0 (words.png): cannot be decoded as PNG, JPEG or WebP"),
        (["dark.png", "wide.png", *QUICKLY], "images.1 (wide.png):  ...  9 x 8  ...  8 x 8"),
        (["clear.png", *QUICKLY], "--convert rgb changes that"),
        (["dark.png", "--radius", "0.02"], "ensemble: must be  ...  exactly one is served"),
        (["dark.png", *QUICKLY, "--ensemble", "none"], "there is no ensemble 'none'; there are: moody, trivial"),
        (["dark.png", *QUICKLY, "--radius", "1"], "the largest that can be proved"),
        (
            ["dark.png", "--ensemble", "trivial", "--max-samples", "9", "--procedure", "fixed"],
            "--max-samples is an option of",
        ),
        (
            ["dark.png", *QUICKLY, "--sigma", "0.5"],
            "gaussian, sigma 0.02  ...  --allow-noise-mismatch allows",
        ),
        (
            ["dark.png", *QUICKLY, "--noise", "pink:sigma=1"],
            "noise 'pink:sigma=1': must be one of 'gaussian'",
        ),
        (
            ["dark.png", *QUICKLY, "--noise", "gaussian:sigma"],
            "noise must be like gaussian:sigma=0.25 or a JSON object",
        ),
        (["dark.png", *QUICKLY, "--noise", "gaussian:sigma=1", "--sigma", "2"], "leave one out"),
        (
            ["dark.png", *QUICKLY, "--voting", "loud"],
            "voting: must be 'soft', 'softmax', 'hard' or 'weighted', got 'loud'",
        ),
        (
            ["dark.png", *QUICKLY, "--procedure", "magic"],
            f"--procedure must be one of {', '.join(PROCEDURES.offered)}, got 'magic'",
        ),
        (["dark.png", *QUICKLY, "--procedure", "{magic"], "--procedure '{magic' is not valid JSON"),
        (["dark.png", *QUICKLY, "--out", "no/such/x.json"], "cannot write no/such/x.json: does its folder exist"),
        (["dark.png", *QUICKLY, "--out", "."], "cannot write .: it is a folder"),
        (["dark.png", *QUICKLY, "--url", "here:80"], "must look like http://127.0.0.1:8000"),
    ],
)
def test_what_is_wrong_is_one_sentence(service: str, folder: Path, arguments: list[str], message: str) -> None:
    Path("words.png").write_text("no image")
    Path("wide.png").write_bytes(png(0, (9, 8)))
    Path("clear.png").write_bytes(png(0, mode="RGBA"))
    what_no_option_can_be = ("--max-samples", "--procedure", "noise", "leave one out", "voting", "must look like")
    wrong_use = message.startswith(what_no_option_can_be)
    one_sentence(smoothcert("certify", *arguments, url=service), *message.split("  ...  "), code=2 if wrong_use else 1)


def test_a_server_that_is_away_is_named(folder: Path) -> None:
    done = smoothcert("ensembles", url="http://127.0.0.1:9")
    one_sentence(done, "no answer from http://127.0.0.1:9", "is it running, and is SMOOTHCERT_URL right?")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("unauthorized", "--api-key or in SMOOTHCERT_API_KEY"),
        ("expired", "certify the images again"),
        ("too_many_images", "give fewer images at a time"),
    ],
)
def test_a_refusal_says_what_to_do_here(rogue: Rogue, folder: Path, code: str, remedy: str) -> None:
    rogue.plan("POST", problem(code, "so it is"))
    done = smoothcert("certify", "dark.png", *QUICKLY, url=rogue.url)
    one_sentence(done, "so it is; ", remedy)
    assert "Client(" not in done.stderr


def test_a_server_of_another_version_is_told(rogue: Rogue) -> None:
    rogue.plan("/v1/ensembles", changed(lambda payload: payload["data"][0].pop("digest")))
    rogue.plan("/v1/version", reply(200, {"smoothcert": "9.9.9", "api": "1", "certificate": "x"}))
    done = smoothcert("ensembles", url=rogue.url)
    one_sentence(done, "smoothcert 9.9.9", f"this is {__version__}", "install 9.9.9 here")


def test_something_else_at_the_address_is_told(rogue: Rogue) -> None:
    rogue.plan("", refuse(200), refuse(200))
    one_sentence(smoothcert("ensembles", url=rogue.url), "is that the address of a smoothcert service")


def test_a_connection_that_is_cut_is_mended(rogue: Rogue, folder: Path) -> None:
    rogue.plan("POST", drop, times=2)
    assert smoothcert("certify", "dark.png", *QUICKLY, url=rogue.url).returncode == 0


def test_a_full_disk_is_told_after_the_table(service: str, folder: Path) -> None:
    done = smoothcert("certify", "dark.png", *QUICKLY, "--out", "/dev/full", url=service)
    one_sentence(done, "cannot write /dev/full: No space left on device")
    assert rows(done.stdout)[0][1] == "certified"


def test_the_file_is_written_where_the_table_cannot_be(service: str, folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = smoothcert_process("certify", "dark.png", *QUICKLY, "--out", "kept.json", url=service, stdout=full)
    assert done.returncode == 1
    assert smoothcert("verify", "kept.json").returncode == 0


@pytest.mark.parametrize("leave", [False, True])
def test_ctrl_c_cancels_or_leaves(service: str, client: Client, folder: Path, leave: bool) -> None:
    before = {each.id for each in client.certifications.list()}
    process = begun("certify", "dark.png", *ENDLESSLY, *["--leave"] * leave, url=service)
    (submitted,) = eventually(lambda: {each.id for each in client.certifications.list()} - before)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    if leave:
        note = f"the certification {submitted} goes on; `smoothcert watch {submitted}` follows it"
        assert client.certifications.cancel(submitted).status in ("canceling", "canceled")
    else:
        note = f"the certification {submitted} was canceled"
    assert err.splitlines() == ["stopped", f"  {note}"]
    assert client.certifications.wait(submitted).status == "canceled"


def test_a_timeout_says_how_far_it_came(service: str, client: Client, folder: Path) -> None:
    done = smoothcert("certify", "dark.png", *ENDLESSLY, "--wait-timeout", 0.5, url=service)
    one_sentence(done, "has not ended after 0.5 s", "0 of 1 images done")
    assert done.stderr.splitlines()[1] == f"  the certification {newest(client).id} was canceled"


# --- ensembles


def test_ensembles_are_listed(service: str) -> None:
    names, shapes = zip(*((row[0], row[3]) for row in rows(smoothcert("ensembles", url=service).stdout)), strict=True)
    assert (names, shapes) == (("moody", "trivial"), ("3 x 8 x 8",) * 2)
    served = [json.loads(line) for line in smoothcert("ensembles", "--json", url=service).stdout.splitlines()]
    assert [each["classes"] for each in served] == [["dark", "light"]] * 2


# --- watch


def test_plan_takes_the_noise_of_the_ensemble(service: str) -> None:
    done = smoothcert("plan", "--radius", 0.02, "--ensemble", "trivial", "--json", "--url", service)
    assert done.returncode == 0, done.stderr
    assert "noise: gaussian, sigma 0.02, that of trivial" in done.stderr
    assert done.stdout == smoothcert("plan", "--radius", 0.02, "--sigma", 0.02, "--json").stdout


def test_watch_ends_with_the_certificates(service: str, client: Client) -> None:
    submitted = client.submit([DARK, LIGHT], **QUICK)
    done = smoothcert("watch", submitted.id, url=service)
    assert done.returncode == 0, done.stderr
    assert [row[:3] for row in rows(done.stdout)] == [["0", "certified", "dark"], ["1", "certified", "light"]]
    assert done.stderr.splitlines()[-1] == f"{submitted.id}: succeeded"


def test_watch_into_a_pipe_has_a_line_of_progress_now_and_then(
    service: str, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bar.err, "_force_terminal", False)
    monkeypatch.setattr(bar, "LINE_S", 0.0)
    submitted = client.submit(DARK, **ENDLESS)
    printed = ""

    def told_enough() -> bool:
        nonlocal printed
        printed += capsys.readouterr().err
        return "0 of 1 images done, " in printed

    following = threading.Thread(target=watch._follow, args=(client, submitted.id))
    following.start()
    try:
        eventually(told_enough)
    finally:
        client.certifications.cancel(submitted.id)
        following.join()


def test_watch_gives_the_certificates_as_json(service: str, client: Client) -> None:
    submitted = client.submit([DARK, LIGHT], **QUICK)
    lines = smoothcert("watch", submitted.id, "--json", url=service).stdout.splitlines()
    assert [Certificate.from_json(line) for line in lines] == [*client.certifications.get(submitted.id).certificates]


def test_watch_shows_a_terminal_how_it_comes_along(service: str, client: Client) -> None:
    submitted = client.submit(DARK, **ENDLESS)
    expected = (f"{submitted.id}: running", "0 of 1 images done", "on the class", " to 1.0000")
    ending: list[str] = []

    def end_it_when_all_is_there(seen: str) -> None:
        if not ending and all(words in seen for words in expected):
            ending.append(client.certifications.cancel(submitted.id).status)

    code, seen = on_a_terminal("watch", submitted.id, url=service, seeing=end_it_when_all_is_there)
    assert ending
    assert code == 1
    assert "the certification is canceled" in seen


def test_ctrl_c_leaves_what_is_watched_alone(service: str, client: Client) -> None:
    submitted = client.submit(DARK, **ENDLESS)
    process = begun("watch", submitted.id, url=service)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(submitted.id)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith(f"stopped\n  the certification goes on; `smoothcert watch {submitted.id}` follows it again\n")
    assert client.certifications.get(submitted.id).status in ("queued", "running")
    client.certifications.cancel(submitted.id)
    client.certifications.wait(submitted.id)


def test_what_cannot_be_watched_is_told(service: str, rogue: Rogue) -> None:
    unknown = ("there is no certification 'cert_none'", "the id complete", "kept for a limited time")
    one_sentence(smoothcert("watch", "cert_none", url=service), *unknown)
    one_sentence(smoothcert("watch", "a/b", url=service), "'a/b' cannot be a name")
    rogue.plan("/events", problem("expired", "it has been forgotten"))
    one_sentence(smoothcert("watch", "cert_old", url=rogue.url), "forgotten; certify the images again")


# --- list, cancel, abstentions


def test_certifications_are_listed_and_canceled(service: str, client: Client, folder: Path) -> None:
    submitted = client.submit(DARK, **ENDLESS)
    listed = smoothcert("list", "--most", 1, url=service)
    assert submitted.id in listed.stdout
    assert "0 of 1" in listed.stdout
    lines = smoothcert("list", "--status", "succeeded", "--json", url=service).stdout.splitlines()
    assert submitted.id not in {json.loads(line)["id"] for line in lines}
    assert re.fullmatch(rf"{submitted.id}: cancell?(ing|ed)\n", smoothcert("cancel", submitted.id, url=service).stdout)
    eventually(lambda: client.certifications.get(submitted.id).status == "canceled")
    one_sentence(smoothcert("cancel", "cert_unknown", url=service), "cert_unknown")
    assert smoothcert("list", "--status", "lost", url=service).returncode == 2


def test_an_abstention_is_explained(service: str, folder: Path) -> None:
    options = ("--ensemble", "trivial", "--radius", "0.05")
    alone = smoothcert("certify", "grey.png", *options, url=service)
    assert alone.returncode == 3
    assert "The reason: " in alone.stdout
    both = smoothcert("certify", "grey.png", "dark.png", *options, url=service)
    assert "1 of 2 are abstentions: nothing is claimed about these images." in both.stdout
