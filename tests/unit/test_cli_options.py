"""Parameters of a procedure as options, completion, exit codes, and tables on narrow screens."""

from __future__ import annotations

import re
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smoothcert.cli import completion
from smoothcert.cli.options import request_fields
from smoothcert.client.errors import InvalidRequestError
from smoothcert.client.fields import make_request
from smoothcert.errors import DomainError
from smoothcert.noise import Splitting
from smoothcert.procedures import PROCEDURES, preferred
from smoothcert.request import CertificationRequest
from tests.support.command import one_sentence, png, smoothcert

HAVE_N = ", ".join(name for name in PROCEDURES.offered if "n" in PROCEDURES[name].model_fields)
"""The procedures that have the parameter n."""
NOTHING: dict[str, Any] = dict.fromkeys(("procedure", "noise", "n", "stages", "max_samples", "abandon", "radii"))


@pytest.mark.parametrize(
    ("options", "procedure"),
    [
        ({"max_samples": 1000, "radius": 0.1}, {"name": "optimal", "max_samples": 1000}),
        ({"n": 500}, {"name": "fixed", "n": 500}),
        ({"procedure": "adaptive", "stages": "10,100", "radius": 0.1}, {"name": "adaptive", "stages": (10, 100)}),
        (
            {"procedure": "sequential", "abandon": "lost-certificate", "radius": 0.1},
            {"name": "sequential", "abandon": "lost-certificate"},
        ),
        (
            {"procedure": '{"name": "sequential", "n0": 7}', "max_samples": 50, "radius": 0.1},
            {"name": "sequential", "n0": 7, "max_samples": 50},
        ),
        ({"procedure": "sequential", "radius": 0.1}, "sequential"),
        ({"radii": "0.25,0.5"}, {"name": "optimal", "radii": (0.25, 0.5)}),
        (
            {"procedure": '{"name": "optimal", "price": 9000}', "radii": "1", "max_samples": 50},
            {"name": "optimal", "price": 9000, "radii": (1.0,), "max_samples": 50},
        ),
    ],
)
def test_options_are_the_parameters_of_the_procedure(options: dict[str, Any], procedure: Any) -> None:
    assert request_fields(**{**NOTHING, **options})["procedure"] == procedure


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 500, "radius": 0.1}, f"--n is an option of --procedure {HAVE_N}, got optimal, the default here$"),
        (
            {"procedure": "fixed", "max_samples": 5},
            "--max-samples is an option of --procedure optimal, sequential, largest",
        ),
        ({"procedure": '{"name": "fixed", "n": 5}', "n": 6}, "--n is given twice"),
        ({"radii": "0.1,0.2", "radius": 0.1}, "--radii and --radius exclude each other"),
        (
            {"procedure": "sequentail"},
            rf"--procedure must be one of {', '.join(PROCEDURES.offered)}, got 'sequentail', did you mean sequential\?",
        ),
        ({"radii": ""}, "--radii takes numbers with commas between, got ''"),
        ({"radii": "0.1;0.2"}, "--radii takes numbers with commas between, got '0.1;0.2'"),
        ({"radii": "0.1,0.2", "procedure": "largest"}, "--radii is an option of --procedure optimal, got largest"),
        ({"n": 500, "procedure": "optimal", "radius": 0.1}, f"{HAVE_N}, got optimal$"),
        ({"radii": "0.1", "noise": "splitting:reach=0.1"}, "--radii is an option of --procedure optimal, got exact"),
        ({"procedure": "adaptive", "stages": "many"}, "--stages takes whole numbers with commas between, got 'many'"),
    ],
)
def test_an_option_that_does_not_belong_to_the_procedure_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        request_fields(**{**NOTHING, **options})


@pytest.mark.parametrize(
    "options",
    [
        ("--procedure", "sequental"),
        ("--procedure", "transfer"),
        ("--procedure", "adaptive", "--stages", "many"),
        ("--procedure", "sequential", "--radius", 0.1, "--abandon", "never"),
        ("--n", 5, "--radius", 0.1),
        ("--n", 0),
        ("--radius", 0.1, "--max-samples", -1),
        ("--radius", -1),
        ("--radius", "nan"),
        ("--alpha", 2),
        ("--beta", 0),
        ("--sigma", 0),
        ("--noise", "pink"),
        ("--noise", "gaussian:sigma=1", "--sigma", 2),
        ("--voting", "loud"),
        ("--consensus", 0),
        ("--convert", "blue"),
        ("--resize", "cove"),
        ("--resize", "{"),
        ("--url", "here:80"),
        ("--api-key", "of\ntwo lines"),
        ("--wait-timeout", -1),
    ],
)
def test_a_value_that_no_option_has_is_a_wrong_command_line(options: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(png(0))
    done = smoothcert("certify", tmp_path / "image.png", *options, url="http://127.0.0.1:9")
    assert done.returncode == 2
    if "--wait-timeout" not in options:  # typer itself refuses that
        one_sentence(done, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "image.png", "--n", 0),
        ("predict", "image.png", "--alpha", 2),
        ("predict", "image.png", "--voting", "loud"),
        ("evaluate", "data", "--out", "report", "--alpha", 2),
        ("evaluate", "data", "--out", "report", "--radii", "0.5,0.25"),
        ("diagnose", "data", "--noise", "pink"),
        ("diagnose", "data", "--sigma", 0),
        ("diagnose", "data", "--convert", "blue"),
        ("compare", "old", "new", "--images", "data", "--out", "both", "--alpha", 2),
        ("list", "--status", "lost"),
        ("ensembles", "--url", "here:80"),
    ],
)
def test_wrong_values_end_every_command_alike(arguments: tuple[object, ...]) -> None:
    done = smoothcert(*arguments, url="http://127.0.0.1:9")
    assert done.returncode == 2, done.stderr
    assert "no answer" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_that_does_not_answer_is_not_a_wrong_command_line(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(png(0))
    one_sentence(smoothcert("certify", tmp_path / "image.png", "--radius", 0.1, url="http://127.0.0.1:9"), "no answer")


def test_a_misspelt_status_names_the_nearest() -> None:
    words = "--status must be one of queued, running, .*, got 'runing', did you mean running"
    assert re.search(words, smoothcert("list", "--status", "runing").stderr)


def test_a_misspelt_choice_names_the_nearest() -> None:
    for field, value, near in (("voting", "sof", "soft"), ("resize", "cove", "cover")):
        with pytest.raises(InvalidRequestError, match=f"got '{value}'.*, did you mean {near}"):
            make_request({field: value}, CertificationRequest)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", ["60", "120"])
def test_a_list_breaks_no_name(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimpleNamespace(
        id=f"cert_{'0' * 32}",
        status="succeeded",
        ensemble="cifar10-resnet20-gaussian-0.25",
        created_at=datetime(2026, 11, 1, tzinfo=UTC),
        progress=SimpleNamespace(images_done=1, images_total=1, certified=1),
        request=SimpleNamespace(procedure=SimpleNamespace(predicts=False)),
    )
    client = SimpleNamespace(certifications=SimpleNamespace(list=lambda status: [entry]))
    monkeypatch.setattr("smoothcert.cli.certifications.connected", lambda *_: nullcontext(client))
    printed = smoothcert("list", env={"COLUMNS": columns}).stdout
    assert entry.id in printed
    assert entry.ensemble in printed


def test_there_is_one_default_procedure() -> None:
    assert "procedure" not in request_fields(**NOTHING, radius=0.1), "the client chooses"
    for fields, name in [({"radius": 0.1}, "optimal"), ({}, "fixed"), ({"noise": Splitting(0.5)}, "exact")]:
        chosen = make_request(fields, CertificationRequest).procedure  # type: ignore[arg-type]
        assert chosen == preferred(fields.get("radius"), fields.get("noise"))  # type: ignore[arg-type]
        assert chosen.name == name
    assert CertificationRequest().procedure.name == "adaptive", "the HTTP API keeps the paper's"


def test_values_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completion.procedures("s") == ["sequential"]
    assert "transfer" not in completion.procedures(""), "no service offers it"
    assert "predict" not in completion.procedures(""), "it has a command of its own"
    assert completion.votings("so") == ["soft", "softmax"]
    monkeypatch.setenv("SMOOTHCERT_URL", "http://127.0.0.1:9")
    assert completion.ensembles("") == []


def test_a_plan_for_a_radius_that_nothing_proves_is_a_sentence() -> None:
    done = smoothcert("plan", "--radius", 5, "--sigma", 0.25)
    first, *others = done.stdout.splitlines()
    assert first.startswith("No procedure can prove this radius with these samples. ")
    assert "radius 5 is beyond the largest provable one" in first
    assert not [line for line in others if "provable" in line]
    assert done.returncode == smoothcert("plan", "--radius", 5, "--sigma", 0.25, "--json").returncode == 3
    assert smoothcert("plan", "--radius", 0.25, "--sigma", 0.25, "--n", 100, "--json").returncode == 0, "some can"


@pytest.mark.parametrize("columns", [50, 72])
def test_a_narrow_plan_keeps_the_names_of_the_procedures(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smoothcert.cli.screen.out.width", columns)
    lines = smoothcert("plan", "--radius", 0.25, "--sigma", 0.25).stdout.splitlines()
    for name in ("fixed", "adaptive", "optimal"):
        assert [line for line in lines if line.split()[:1] == [name]], lines
