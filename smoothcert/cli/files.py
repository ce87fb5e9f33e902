"""Files that a command writes: an error names the file."""

from __future__ import annotations

import os
from pathlib import Path

from smoothcert.errors import SmoothcertError


def require_writable(path: Path) -> None:
    """Look before the work is done, lest it be done in vain; what happens meanwhile, `write` tells."""
    if path.is_dir():
        raise SmoothcertError(f"cannot write {path}: it is a folder, wanted a file")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise SmoothcertError(f"cannot write {path}: is its folder there, and may it be written to?")


def write(path: Path, text: str) -> None:
    """Write the whole file."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files may be no UTF-8
    except OSError as error:
        raise SmoothcertError(f"cannot write {path}: {error.strerror or error}") from error
