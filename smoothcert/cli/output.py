"""Standard output: takes every character, is named where it cannot be written, and may be closed or full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Output(io.TextIOWrapper):
    """Its errors say what could not be written, as those of other files do."""

    def write(self, text: str) -> int:
        """Write it, now or at the next flush."""
        with _named():
            return super().write(text)

    def flush(self) -> None:
        """Write what has not been written yet."""
        with _named():
            super().flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def open_output() -> None:
    """Where a stream was closed, what is written to it goes nowhere."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if isinstance(before := sys.stdout, io.TextIOWrapper):
        encoding, line_buffering, write_through = before.encoding, before.line_buffering, before.write_through
        sys.stdout = Output(before.detach(), encoding, "replace", None, line_buffering, write_through)


def _nowhere() -> io.TextIOWrapper:
    return Path(os.devnull).open("w")


def let_go_of_output() -> None:
    """What was not written by now never will be; else the interpreter would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
