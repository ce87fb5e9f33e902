"""A file of JSON lines that grows by whole lines: what a long run has finished, so that the next one can go on.

The first line says what run it is; a run with other parameters is refused. A line cut short by a crash is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from smoothcert.errors import LedgerError


class Ledger:
    """Lines of one run; use it as a context manager."""

    def __init__(self, path: Path, run: Mapping[str, Any], *, once: Mapping[str, Any] | None = None) -> None:
        """Open or begin the ledger of this run; `once` is what its first start decides for all later ones."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[dict[str, Any]] = []
        self.run: dict[str, Any] = json.loads(json.dumps(run))
        kept = self._read()
        self._file = path.open("ab", buffering=0)  # so that closing it writes nothing more after a failure
        if kept is None:
            self.run |= once or {}
            self._write({"run": self.run})
        else:
            os.truncate(path, kept)

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line; it is on disk when this returns."""
        self._write(line)
        self.lines.append(dict(line))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> int | None:
        """Take in what is there; gives the bytes of whole lines, or None where there is no whole first line."""
        if not self.path.exists():
            return None
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        if not whole:
            self.path.write_bytes(b"")
            return None
        try:
            first, *self.lines = (json.loads(line) for line in whole.split(b"\n"))
            told = first["run"]
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"{self.path} is damaged: {error!r}") from error
        other = {key: told.get(key) for key, value in self.run.items() if told.get(key) != value}
        if other:
            raise LedgerError(f"{self.path} belongs to another run, with {other}; name another file or remove it")
        self.run = told
        return len(whole) + 1

    def _write(self, line: Mapping[str, Any]) -> None:
        before = os.fstat(self._file.fileno()).st_size
        left = memoryview(json.dumps(line).encode() + b"\n")
        try:
            while left:  # a nearly full disk takes a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            os.truncate(self.path, before)
            raise LedgerError(f"cannot write {self.path}: {error}; the lines before are unharmed") from error
