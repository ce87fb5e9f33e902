"""The README is true: its examples run, and what they print is what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONSOLE = re.findall(r"^\$ (.*)$", README, re.MULTILINE)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.run(arguments, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)


@pytest.mark.parametrize("code", PYTHON, ids=[code.splitlines()[0] for code in PYTHON])
def test_every_example_runs(code: str, tmp_path: Path) -> None:
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    if (tmp_path / "certificate.json").exists():
        assert "$ .venv/bin/smoothcert verify certificate.json" in README
        assert run([sys.executable, "-m", "smoothcert.cli", "verify", "certificate.json"], tmp_path).returncode == 0


def test_the_plan_is_the_one_that_is_shown(tmp_path: Path) -> None:
    (command,) = [line for line in CONSOLE if " plan " in line]
    arguments = command.split()[1:]
    printed = run([sys.executable, "-m", "smoothcert.cli", *arguments], tmp_path).stdout
    shown = README.split(command)[1].split("```")[2]
    assert printed.split() == shown.split()


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {match for line in [*CONSOLE, README] for match in re.findall(r"\bmake ([a-z]+)\b", line)}
    assert {"setup", "check", "test"} <= named & targets
