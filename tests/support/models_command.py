"""`python -m models` in this process, since a new process would import torch again."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from models.__main__ import run


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def models(*arguments: object) -> Done:
    """Run the command line to its end."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        run([*map(str, arguments)])
    if isinstance(end.value.code, str):  # Python prints the sentence of sys.exit and exits with 1
        return Done(1, out.getvalue(), end.value.code)
    return Done(end.value.code or 0, out.getvalue(), err.getvalue())
