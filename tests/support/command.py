"""The command `smoothcert`, in this process where that is enough, or as a separate process."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from PIL import Image

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "smoothcert.cli"]
QUICKLY = ("--ensemble", "trivial", "--radius", "0.02", "--procedure", "sequential")
"""A question that is answered in a moment."""
ENDLESSLY = ("--ensemble", "moody", "--procedure", '{"name": "fixed", "n": 1000000}')
"""A question that takes minutes, long enough to be left in the middle."""


def environment(**more: str) -> dict[str, str]:
    """The environment without the settings of the user who runs the tests."""
    foreign = ("SMOOTHCERT_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**clean, "PYTHONPATH": str(ROOT), "TERM": "xterm", **more}


def smoothcert(
    *arguments: object, url: str = "", given: str = "", env: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in this process, which saves the start and the imports of another.

    An exception that the command does not turn into a sentence is raised here.
    """
    words = [*map(str, arguments)]
    out, err, hook = io.StringIO(), io.StringIO(), sys.excepthook
    stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    settings = environment(**({"SMOOTHCERT_URL": url} if url else {}), **env)
    with (
        patch.dict(os.environ, settings, clear=True),
        patch.object(sys, "stdin", stdin),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        from smoothcert.cli.app import run  # imported here, so that its consoles never see the terminal of the tests

        try:
            run(words)
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.excepthook = hook  # typer has put its own there
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def smoothcert_process(*arguments: object, url: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end as a process: for streams, screens, and whatever needs another interpreter."""
    more: Mapping[str, str] = options.pop("env", {})
    env = environment(**({"SMOOTHCERT_URL": url} if url else {}), **more)
    streams = {} if "stdout" in options else {"capture_output": True}
    return subprocess.run([*COMMAND, *map(str, arguments)], text=True, env=env, timeout=120, **streams, **options)


def begun(*arguments: object, url: str) -> subprocess.Popen[str]:
    """Start it with default signals, even if the tests run in the background or under nohup, which ignore some."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        text=True,
        env=environment(SMOOTHCERT_URL=url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=default_signals,
    )


def default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def on_a_terminal(
    *arguments: object, url: str = "", seeing: Callable[[str], object] = len, **more: str
) -> tuple[int, str]:
    """Run it on a terminal: the exit code and everything on the screen. `seeing` is called with the output so far."""
    ours, theirs = pty.openpty()
    env = environment(SMOOTHCERT_URL=url, COLUMNS="120", **more)
    process = subprocess.Popen([*COMMAND, *map(str, arguments)], env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
            seeing(seen.decode(errors="ignore"))
    except OSError:  # Linux raises it when the other side is closed
        pass
    finally:
        os.close(ours)
    return process.wait(120), seen.decode()


def one_sentence(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    """Assert that it failed with this code, and that a line on standard error has these words."""
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "bug in smoothcert" not in done.stderr
    for each in words:
        assert each in done.stderr.splitlines()[0]


def png(value: int, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> bytes:
    """A file with an image in which every pixel is the same."""
    file = io.BytesIO()
    Image.new(mode, size, (value,) * len(mode)).save(file, "PNG")
    return file.getvalue()
