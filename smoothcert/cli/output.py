"""Standard output that accepts every character, is named in errors, and may be closed or full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Output(io.TextIOWrapper):
    """Standard output; its errors have a file name, like those of other files."""

    def write(self, text: str) -> int:
        with _named():
            return super().write(text)

    def flush(self) -> None:
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
    """Replace standard output by an `Output`, and closed streams by the null device."""
    sys.stdout = sys.stdout or _null_device()
    sys.stderr = sys.stderr or _null_device()
    if isinstance(before := sys.stdout, io.TextIOWrapper):
        encoding, line_buffering, write_through = before.encoding, before.line_buffering, before.write_through
        sys.stdout = Output(before.detach(), encoding, "replace", None, line_buffering, write_through)


def _null_device() -> io.TextIOWrapper:
    return Path(os.devnull).open("w")


def discard_output() -> None:
    """Discard what could not be written; otherwise the interpreter tries again at its exit and prints an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
