"""Ctrl-C while a command still imports ends it without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHILE_IMPORTING = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "pydantic":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run in the background
sys.meta_path.insert(0, Interrupting())
sys.argv = ["a command", "--help"]
runpy.run_module(MODULE, run_name="__main__")
"""
"""A program that is interrupted as soon as a command imports pydantic, which all of them need."""


@pytest.mark.parametrize("module", ["app", "app.local", "models", "workers"])
def test_ctrl_c_during_an_import_is_no_traceback(module: str) -> None:
    program = WHILE_IMPORTING.replace("MODULE", repr(module))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
