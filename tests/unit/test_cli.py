"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from smoothcert.procedures import Adaptive
from tests.unit.test_certificate import altered, certificate_of

PNG = b"\x89PNG\r\n"


def smoothcert(*arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smoothcert.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=given, timeout=60)


def test_plan_prints_a_table() -> None:
    done = smoothcert("plan", "--radius", 0.25, "--sigma", 0.25)
    assert done.returncode == 0, done.stderr
    for expected in ("0.952864", "sequential, strict", "100 1,000 10,000 120,069"):
        assert expected in done.stdout


def test_plan_says_what_a_radius_out_of_reach_would_take() -> None:
    done = smoothcert("plan", "--radius", 1, "--sigma", 0.25)
    assert "218,105 samples" in " ".join(done.stdout.split())


def test_plan_as_json_is_one_object() -> None:
    said = json.loads(smoothcert("plan", "--radius", 0.25, "--sigma", 0.25, "--p-a", 0.9, "--json").stdout)
    assert said["fixed"]["largest_radius"] == 0.952864
    assert said["sequential, strict"]["expected"][0]["samples"] < 1000


def test_plan_draws_a_picture(tmp_path: Path) -> None:
    done = smoothcert("plan", "--radius", 0.25, "--sigma", 0.25, "--plot", tmp_path / "plan.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["--radius", "-1", "--sigma", "0.25"], "-1.0"),
        (["--radius", "1", "--sigma", "0"], "0.0"),
        (["--radius", "nan", "--sigma", "1"], "nan"),
        (["--radius", "1", "--sigma", "1", "--alpha", "2"], "2.0"),
        (["--radius", "1", "--sigma", "1", "--n", "0"], "got 0"),
        (["--radius", "1", "--sigma", "1", "--stages", "10,10"], "[10, 10]"),
        (["--radius", "1", "--sigma", "1", "--stages", "ten"], "'ten'"),
        (["--radius", "1", "--sigma", "1", "--p-a", "7"], "7.0"),
        (["--radius", "1", "--sigma", "1", "--plot", "/nowhere/plan.png"], "/nowhere/plan.png"),
        (["--radius", "1", "--sigma", "1", "--plot", "plan.xyz"], "plan.xyz"),
    ],
)
def test_bad_input_is_one_sentence_that_names_it(arguments: list[str], seen: str) -> None:
    done = smoothcert("plan", *arguments)
    assert done.returncode == 1
    assert seen in done.stderr
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in smoothcert("--debug", "plan", "--radius", -1, "--sigma", 1).stderr


def test_verify_accepts_a_certificate_and_names_what_was_altered(tmp_path: Path) -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(certificate.to_json())
    bad.write_text(altered(certificate, ["samples"], 7, signed=True).to_json())
    assert smoothcert("verify", good).returncode == 0
    done = smoothcert("verify", good, bad)
    assert done.returncode == 1
    assert f"consistent  {good}" in done.stdout
    assert f"samples: is 7, the counts give {certificate.samples}" in done.stdout
    said = [json.loads(line) for line in smoothcert("verify", "--json", good, bad).stdout.splitlines()]
    assert [each["consistent"] for each in said] == [True, False]


def test_verify_reads_standard_input() -> None:
    assert smoothcert("verify", "-", given=certificate_of(Adaptive(), 0.9).to_json()).returncode == 0


@pytest.mark.parametrize("contents", [b"", b"not json", b"\xff\xfe", b"{}"])
def test_verify_refuses_what_is_no_certificate(tmp_path: Path, contents: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(contents)
    done = smoothcert("verify", file)
    assert done.returncode == 1
    assert "not a certificate" in done.stdout
    assert "Traceback" not in done.stderr


def test_verify_names_a_file_that_is_not_there() -> None:
    done = smoothcert("verify", "nowhere.json")
    assert done.returncode == 1
    assert "nowhere.json" in done.stdout


def test_the_version_is_told() -> None:
    assert smoothcert("--version").stdout.startswith("smoothcert 0.")
