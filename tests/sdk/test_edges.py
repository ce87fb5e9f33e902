"""Nothing goes on unseen, and neither the environment, odd arguments nor a narrow screen end in a riddle."""

from __future__ import annotations

import asyncio
import io
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from smoothcert import AsyncClient, Client
from smoothcert.client import errors
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, RoundedGaussian
from smoothcert.procedures import Fixed
from tests.sdk.test_notebook import certificate
from tests.service import eventually
from tests.support.command import (
    COMMAND,
    ENDLESSLY,
    QUICKLY,
    begun,
    environment,
    one_sentence,
    png,
    smoothcert,
    smoothcert_process,
)
from tests.support.questions import DARK, ENDLESS, LIGHT, QUICK
from tests.support.rogue import Exchange, Rogue, changed, drop, refuse

POST, CANCEL = "POST /v1/certifications", "/cancel"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def dark(tmp_path: Path) -> Path:
    path = tmp_path / "dark.png"
    path.write_bytes(png(0))
    return path


class Held:
    """A request that the service has got, or not, and whose answer does not come."""

    def __init__(self, *, arrives: bool) -> None:
        self.there = threading.Event()
        self.over = threading.Event()
        self.certification = ""
        self._arrives = arrives

    def __call__(self, exchange: Exchange) -> None:
        if self._arrives:
            self.certification = exchange.forward().json()["id"]
        self.there.set()
        self.over.wait(120)


@pytest.fixture(params=[True, False], ids=["accepted", "not yet accepted"])
def held(request: pytest.FixtureRequest, rogue: Rogue) -> Iterator[Held]:
    holding = Held(arrives=request.param)
    rogue.plan(POST, holding)
    yield holding
    holding.over.set()


def ids(client: Client) -> set[str]:
    return {each.id for each in client.certifications.list()}


# --- who leaves before the answer


@pytest.mark.parametrize("leave", [False, True])
def test_ctrl_c_before_the_answer_cancels_or_leaves(
    rogue: Rogue, client: Client, held: Held, dark: Path, leave: bool
) -> None:
    before = ids(client)
    process = begun("certify", dark, *ENDLESSLY, *["--leave"] * leave, url=rogue.url)
    assert held.there.wait(120)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    (made,) = ids(client) - before
    assert held.certification in (made, "")
    end = f"goes on; `smoothcert watch {made}` follows it" if leave else "was canceled"
    assert (process.returncode, err) == (130, f"stopped\n  the certification {made} {end}\n")
    assert len({seen.headers["Idempotency-Key"] for seen in rogue.requests(POST) if CANCEL not in seen.path}) == 1
    if leave:
        client.certifications.cancel(made)
    assert client.certifications.wait(made).status == "canceled"


@pytest.mark.parametrize("leaving", ["cancel", "leave"])
def test_an_answer_that_comes_too_late_cancels_or_leaves(
    rogue: Rogue, client: Client, held: Held, leaving: Literal["cancel", "leave"]
) -> None:
    before = ids(client)
    with Client(rogue.url, timeout=1, retries=0) as through, pytest.raises(errors.NoAnswerError) as caught:
        through.certify(DARK, **ENDLESS, on_timeout=leaving)
    (made,) = ids(client) - before
    assert held.certification in (made, "")
    end = f"goes on; `smoothcert watch {made}` follows it" if leaving == "leave" else "was canceled"
    assert caught.value.__notes__ == [f"the certification {made} {end}"]
    if leaving == "leave":
        client.certifications.cancel(made)
    assert client.certifications.wait(made).status == "canceled"


def test_a_data_set_is_left_as_was_chosen_before_the_answer_too(rogue: Rogue, client: Client, held: Held) -> None:
    before = ids(client)
    with Client(rogue.url, timeout=1, retries=0) as through, pytest.raises(errors.NoAnswerError) as caught:
        list(through.certify_many([DARK], **ENDLESS, on_timeout="leave"))
    (made,) = ids(client) - before
    assert f"the certification {made} goes on; `smoothcert watch {made}` follows it" in caught.value.__notes__
    client.certifications.cancel(made)


@pytest.mark.parametrize("work", ["certify", "submit"])
def test_a_task_that_is_canceled_before_the_answer_cancels(rogue: Rogue, client: Client, held: Held, work: str) -> None:
    before = ids(client)

    async def main() -> list[str]:
        async with AsyncClient(rogue.url) as through:
            task = asyncio.create_task(getattr(through, work)(DARK, **ENDLESS))
            await asyncio.to_thread(held.there.wait, 120)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            return caught.value.__notes__

    notes = asyncio.run(main())
    (made,) = ids(client) - before
    assert notes == [f"the certification {made} was canceled"]
    assert client.certifications.wait(made).status == "canceled"


def test_what_nobody_can_tell_is_said(rogue: Rogue, client: Client, held: Held, dark: Path) -> None:
    process = begun("certify", dark, *ENDLESSLY, url=rogue.url)
    assert held.there.wait(120)
    rogue.plan(POST, drop)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"the certification may have been accepted, and then it goes on (no answer from {rogue.url}" in err
    if held.certification:
        client.certifications.cancel(held.certification)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", ["certify", "evaluate", "watch"])
def test_every_signal_to_stop_is_ctrl_c(
    service: str, client: Client, tmp_path: Path, number: signal.Signals, command: str
) -> None:
    (tmp_path / "data" / "dark").mkdir(parents=True)
    image = tmp_path / "data" / "dark" / "0.png"
    image.write_bytes(png(0))
    before = ids(client)
    watched = client.submit(DARK, **ENDLESS).id if command == "watch" else ""
    arguments = {
        "certify": ["certify", image, *ENDLESSLY],
        "evaluate": ["evaluate", tmp_path / "data", "--out", tmp_path / "report", *ENDLESSLY],
        "watch": ["watch", watched],
    }
    process = begun(*arguments[command], url=service)
    (made,) = eventually(lambda: ids(client) - before)
    if command == "watch":
        assert process.stderr is not None
        assert process.stderr.readline().startswith(made)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "stopped\n" in err
    assert "Traceback" not in err
    if command == "watch":
        assert f"the certification goes on; `smoothcert watch {made}`" in err
        client.certifications.cancel(made)
    elif command == "evaluate":  # the next run asks for it again
        assert f"the certification {made} goes on; `smoothcert watch {made}`" in err
        client.certifications.cancel(made)
    else:
        assert f"the certification {made} was canceled" in err
    assert client.certifications.wait(made).status == "canceled"


def test_a_hangup_that_is_ignored_stays_ignored(service: str, dark: Path) -> None:
    command = [*COMMAND, "certify", str(dark), *QUICKLY]
    script = f"trap '' HUP; {shlex.join(command)} & child=$!; sleep 0.3; kill -HUP $child; wait $child"
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, env=environment(SMOOTHCERT_URL=service), timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_cannot_be_canceled_is_said_to_go_on(rogue: Rogue, client: Client) -> None:
    rogue.plan(CANCEL, refuse(500))
    with Client(rogue.url) as through, pytest.raises(errors.WaitTimeoutError) as caught:
        through.certify(DARK, **ENDLESS, wait_timeout=0.1)
    assert caught.value.certification is not None
    left = caught.value.certification.id
    (note,) = caught.value.__notes__
    assert f"{left} could not be canceled and may go on; `smoothcert watch {left}` follows it (" in note
    client.certifications.cancel(left)


def test_ctrl_c_again_leaves_at_once_and_says_what_may_go_on(rogue: Rogue, client: Client, dark: Path) -> None:
    before = ids(client)
    canceling = Held(arrives=False)
    rogue.plan(CANCEL, canceling)
    process = begun("certify", dark, *ENDLESSLY, url=rogue.url)
    (made,) = eventually(lambda: ids(client) - before)
    eventually(lambda: rogue.requests("/events"))
    process.send_signal(signal.SIGINT)
    assert canceling.there.wait(120)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    canceling.over.set()
    assert process.returncode == 130
    assert f"the certification {made} may go on; `smoothcert watch {made}` follows it" in err
    client.certifications.cancel(made)


# --- the environment


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "ALL_PROXY, .* cannot be used: .*socks"),
        ("ALL_PROXY", "carrier://pigeon", "ALL_PROXY, .* cannot be used: .*carrier"),
        ("SSL_CERT_FILE", "/nope", r"certificates to trust from '/nope' \(SSL_CERT_FILE\): No such file"),
        ("SSL_CERT_FILE", __file__, "certificates to trust from .*test_edges.py'"),
    ],
)
def test_an_environment_that_cannot_be_had_is_named(
    kind: type, variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(DomainError, match=message):
        kind("http://127.0.0.1:9")


def test_a_command_names_what_is_wrong_with_the_environment() -> None:
    away = "http://127.0.0.1:9"
    one_sentence(smoothcert("ensembles", url=away, env={"ALL_PROXY": "socks5://127.0.0.1:9"}), "ALL_PROXY")
    one_sentence(smoothcert("ensembles", url=away, env={"SSL_CERT_FILE": "/nope"}), "'/nope' (SSL_CERT_FILE): No such")


def test_a_full_disk_is_told_however_much_was_written(service: str, dark: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = smoothcert_process(
            "certify", *[dark] * 50, *QUICKLY, "--json", url=service, stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device\n")


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-"])
def test_closed_streams_keep_nobody_from_the_result(service: str, dark: Path, tmp_path: Path, closed: str) -> None:
    command = [*COMMAND, "certify", str(dark), *QUICKLY, "--out", str(tmp_path / "kept.jsonl")]
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(command)} {closed}"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(SMOOTHCERT_URL=service),
        timeout=120,
    )
    assert done.returncode == 0
    assert ("certified" in done.stdout) == (closed == "2>&-")
    assert '"certified"' in (tmp_path / "kept.jsonl").read_text()


def test_a_program_without_standard_error_gets_its_certificate(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert client.certify(DARK, **QUICK).decision == "certified"


# --- arguments


@pytest.fixture
def nowhere() -> Iterator[Client]:
    """A client whose requests must be refused before they are sent."""
    with Client("http://127.0.0.1:9", retries=0) as client:
        yield client


def test_labels_may_be_names_of_classes(client: Client) -> None:
    given = client.submit([DARK, LIGHT, DARK], **QUICK, labels=(each for each in ("dark", "light", np.int64(1))))
    assert given.request.labels == (0, 1, 1)
    with pytest.raises(errors.InvalidRequestError, match=r"labels\.1: the label 'lihgt' is .* did you mean light\?"):
        client.certify([DARK, LIGHT], **QUICK, labels=["dark", "lihgt"])
    with pytest.raises(errors.UnknownEnsembleError):
        client.certify(DARK, ensemble="nix", labels=["dark"], radius=0.02)
    with pytest.raises(errors.InvalidRequestError, match="names of classes need an ensemble; the service offers"):
        client.certify(DARK, labels=["dark"], radius=0.02)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([8.0], "labels.0: .* got 8.0"),
        ([0, True], "labels.1: .* got True"),
        ([np.float32(1.0)], "labels.0: .* got "),
        (np.array([[1, 2]]), "labels.0: .* got array"),
        ("8", "labels: .* got '8'"),
        (8, "labels: .* got 8"),
        ({0: 1}, "labels: .* got {0: 1}"),
    ],
)
def test_labels_that_are_none_are_named(nowhere: Client, labels: Any, message: str) -> None:
    with pytest.raises(errors.InvalidRequestError, match=message):
        nowhere.certify(DARK, **QUICK, labels=labels)


@pytest.mark.parametrize(
    "noise", [{"sigma": np.float32(0.5)}, {"noise": {"name": "gaussian", "sigma": np.float32(0.5)}}]
)
def test_numbers_may_be_those_of_numpy(client: Client, noise: Any) -> None:
    fields: Any = {
        "radius": np.float64(0.25),
        "consensus": np.int64(1),
        "alpha": np.float32(0.25),
        "allow_noise_mismatch": np.True_,
        "deadline_s": np.int32(60),
    }
    request = client.submit(DARK, ensemble="trivial", labels=np.array([1], np.uint8), **noise, **fields).request
    assert {name: getattr(request, name) for name in fields} == {name: value.item() for name, value in fields.items()}
    assert request.noise in (Gaussian(0.5), RoundedGaussian(0.5))
    assert request.labels == (1,)
    assert client.plan(**QUICK, image_count=np.int64(3)).feasible  # type: ignore[arg-type]


@pytest.mark.parametrize("consensus", [np.float64(3), np.True_, "3"])
def test_no_other_number_is_taken_for_a_whole_one(nowhere: Client, consensus: Any) -> None:
    with pytest.raises(errors.InvalidRequestError, match=r"consensus: .* got "):
        nowhere.certify(DARK, **QUICK, consensus=consensus)


def test_open_files_are_read(client: Client, dark: Path) -> None:
    with dark.open("rb") as file, tempfile.NamedTemporaryFile() as light:
        light.write(png(255))
        light.seek(0)
        assert client.certify(file, **QUICK).class_name == "dark"
        found = client.certify([io.BytesIO(png(0)), light], **QUICK)
    assert [each.class_name for each in found] == ["dark", "light"]


def test_an_open_file_that_is_no_image_is_named(nowhere: Client, client: Client, dark: Path) -> None:
    with dark.open("rb") as file:
        file.read()
        with pytest.raises(errors.ImageError, match=r"dark\.png' is at its end"):
            nowhere.certify(file, **QUICK)
    with pytest.raises(errors.ImageError, match=r"dark\.png': .* closed file"):
        nowhere.certify(file, **QUICK)
    with dark.open("w+") as text:
        for content in ("words", png(0).decode("latin-1")):
            text.write(content)
            text.seek(0)
            with pytest.raises(errors.ImageError, match=r"dark\.png' gives str instead of bytes: .* mode 'rb'"):
                nowhere.certify([text], **QUICK)
    dark.write_bytes(png(0))
    with dark.open() as text, pytest.raises(errors.ImageError, match="gives str instead of bytes"):
        nowhere.certify(text, **QUICK)  # which is not text at all
    with pytest.raises(errors.InvalidImageError, match=r"images\.0 \(BytesIO\): "):
        client.certify(io.BytesIO(b"words"), **QUICK)


@pytest.mark.parametrize("shape", [(0, 8, 3), (8, 0, 3), (3, 8, 0), (0, 8)])
def test_an_image_without_a_pixel_is_told_by_its_shape(nowhere: Client, shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.ImageError) as caught:
        nowhere.certify(np.zeros(shape, np.uint8), **QUICK)
    assert str(caught.value) == f"an image has shape {list(shape)}; it must have at least one pixel"


@pytest.mark.parametrize("seconds", ["x", True, [1]])
def test_a_time_to_wait_that_is_no_number_is_named(nowhere: Client, seconds: Any) -> None:
    with pytest.raises(DomainError, match="wait_timeout must be a number, got "):
        nowhere.certify(DARK, **QUICK, wait_timeout=seconds)
    with pytest.raises(DomainError, match="wait_timeout must be a number, got "):
        nowhere.certifications.wait("cert_1", wait_timeout=seconds)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"timeout": "x"}, "timeout must be a number, got 'x'"),
        ({"timeout": -1}, "timeout must be positive and finite, got -1"),
        ({"timeout": float("inf")}, "timeout must be positive and finite, got inf"),
        ({"retries": "x"}, "retries must be a whole number, got 'x'"),
        ({"retries": -1}, "retries must be from 0 to .*, got -1"),
        ({"retries": 1.5}, "retries must be a whole number, got 1.5"),
        ({"base_url": "http://here\n"}, r"base_url .* must look like .*, got 'http://here\\n'"),
        ({"base_url": "http://here/\x00"}, r"base_url .* must look like .*, got 'http://here/\\x00'"),
        ({"base_url": Path("/")}, "base_url must be text, got PosixPath"),
        ({"api_key": 7}, "api_key must be text, got int"),
    ],
)
def test_arguments_of_a_client_are_named(kind: type, argument: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        kind(**argument)


# --- the screen


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_screen_lists_the_ensembles(rogue: Rogue, columns: int) -> None:
    name = "cifar10-resnet20-gaussian-0.25"
    rogue.plan("/v1/ensembles", changed(lambda payload: payload["data"][0].update(name=name)))
    lines = shown("ensembles", url=rogue.url, columns=columns)
    assert lines[:2] == [name, "  ready          yes, 1 on cpu"]
    assert lines[3] == "  input          3 x 8 x 8"
    assert max(map(len, lines)) <= columns


def test_an_ensemble_that_could_not_be_loaded_is_listed_with_its_reason(rogue: Rogue) -> None:
    bad = {"name": "broken", "reason": "0.safetensors: missing", "workers": 1}
    rogue.plan("/v1/ensembles", changed(lambda payload: payload.update(failed=[bad])))
    done = smoothcert("ensembles", url=rogue.url)
    assert "broken cannot be loaded: 0.safetensors: missing" in done.stderr
    assert "trivial" in done.stdout


def test_a_narrow_screen_lists_the_certificates(service: str, tmp_path: Path) -> None:
    for name, value in (("dark", 0), ("light", 255)):
        (tmp_path / f"{name}.png").write_bytes(png(value))
    certify = ("certify", "dark.png", "light.png", *QUICKLY)
    narrow, wide = (shown(*certify, url=service, columns=columns, cwd=tmp_path) for columns in (40, 80))
    for name in ("dark", "light"):
        begin = narrow.index(f"{name}.png")
        assert narrow[begin + 1 : begin + 3] == ["  decision     certified", f"  class        {name}"]
        assert any(line.startswith(f" {name}.png") and "certified" in line for line in wide)
    assert max(map(len, narrow)) <= 40


def test_a_long_name_goes_on_in_the_next_line_of_a_table(service: str, tmp_path: Path) -> None:
    name = "a-photograph-of-something-dark.png"
    (tmp_path / name).write_bytes(png(0))
    lines = shown("certify", name, *QUICKLY, url=service, columns=80, cwd=tmp_path)
    assert lines[1].split() == ["image", "decision", "class", "radius", "p_A", "samples", "evaluations"]
    assert "".join(line.split()[0] for line in lines[3 : lines.index("", 3)]) == name


def test_one_stage_is_no_stages() -> None:
    assert "<summary>1 stage</summary>" in certificate(Fixed(n=1000))._repr_html_()


def shown(*arguments: object, columns: int, **options: Any) -> list[str]:
    """The lines that come to a screen of so many columns."""
    done = smoothcert_process(*arguments, env={"COLUMNS": str(columns)}, **options)
    assert done.returncode == 0, done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]
