from __future__ import annotations

import sys

import pytest
import torch

from smoothcert.engine.errors import PrecisionError
from smoothcert.engine.precision import exercise, probe, require


def test_float32_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smoothcert.engine.precision.probe", lambda *_: pytest.fail("tried"))
    assert require("float32") is torch.float32


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(PrecisionError, match="must be one of float32, bfloat16, float16; got 'float8'"):
        require("float8")


def test_a_trial_that_dies_names_the_signal() -> None:
    died = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    with pytest.raises(PrecisionError, match="bfloat16 on cpu: the trial was killed by SIGILL"):
        probe([sys.executable, "-c", died], "bfloat16 on cpu")


def test_a_trial_that_fails_gives_its_last_words() -> None:
    with pytest.raises(PrecisionError, match="exit code 1: ValueError: no such kernel"):
        probe([sys.executable, "-c", "raise ValueError('no such kernel')"], "float16 on cpu")


def test_a_precision_is_refused_where_its_trial_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def die(command: list[str], what: str) -> None:
        commands.append(command)
        raise PrecisionError(f"{what}: the trial was killed by SIGILL")

    monkeypatch.setattr("smoothcert.engine.precision.probe", die)
    with pytest.raises(PrecisionError, match="float16 on cpu: the trial was killed by SIGILL"):
        require("float16", "cpu")
    assert commands == [[sys.executable, "-m", "smoothcert.engine.precision", "float16", "cpu"]]


def test_the_trial_runs_a_network() -> None:
    exercise("float32", "cpu")
