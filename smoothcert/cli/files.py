"""Files that a command writes; an error names the file."""

from __future__ import annotations

import os
from pathlib import Path

from smoothcert.errors import SmoothcertError


def require_writable(path: Path) -> None:
    """Raise an error before the work is done if its result could not be written afterwards."""
    if path.is_dir():
        raise SmoothcertError(f"cannot write {path}: it is a folder")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise SmoothcertError(f"cannot write {path}: does its folder exist, and is it writable?")


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files need not be UTF-8
    except OSError as error:
        raise SmoothcertError(f"cannot write {path}: {error.strerror or error}") from error
