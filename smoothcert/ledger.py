"""A file of JSON lines that grows by whole lines: what a long run has finished, so that the next one can go on.

The first line says what run it is; a run with other parameters is refused, unless nothing was finished. A line cut
short by a crash is dropped. Only one run at a time has the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import Any

from smoothcert.errors import LedgerError, shown

BEGINNING = b'{"run": '
REMEDY = "remove that line and those after it, or name another file"


class Ledger:
    """Lines of one run; use it as a context manager."""

    def __init__(self, path: Path, run: Mapping[str, Any], *, once: Mapping[str, Any] | None = None) -> None:
        """Open or begin the ledger of this run; `once` is what its first start decides for all later ones."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{path} is no regular file, as one of finished work must be")
        self.lines: list[dict[str, Any]] = []
        self.run: dict[str, Any] = json.loads(json.dumps(run))
        self._file = path.open("ab", buffering=0)  # so that closing it writes nothing more after a failure
        try:
            self._require_alone()
            kept = self._read()
            os.truncate(path, kept)
            if not kept:
                self.run |= once or {}
                self._write({"run": self.run})
        except BaseException:
            self.close()
            raise

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

    def _require_alone(self) -> None:
        try:
            _lock(self._file)
        except BlockingIOError as error:
            raise LedgerError(f"{self.path} is in use by another run") from error

    def _read(self) -> int:
        """Take in what is there; gives the bytes of whole lines, or 0 where this run begins anew."""
        whole, _, rest = self.path.read_bytes().rpartition(b"\n")
        if not (whole or rest).startswith(BEGINNING[: len(whole or rest)]):
            raise LedgerError(f"{self.path} is not a file of finished work, and would be lost: name another file")
        if not whole:
            return 0
        first, *lines = (self._parsed(number, line) for number, line in enumerate(whole.split(b"\n"), 1))
        other = [*_differences(self.run, first["run"])]
        if other and lines:
            said = "; ".join(other)
            raise LedgerError(f"{self.path} belongs to another run: {said}; name another file or remove it")
        if other:
            return 0
        self.run, self.lines = first["run"], lines
        return len(whole) + 1

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        with suppress(ValueError):
            if isinstance(said := json.loads(line), dict):
                return said
        raise LedgerError(f"{self.path}, line {number} cannot be read: {shown(line)}; {REMEDY}")

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


def _differences(here: Any, there: Any, place: str = "") -> Iterator[str]:
    """What this run asks for and the other did not."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key, value in here.items():
            yield from _differences(value, there.get(key), f"{place}.{key}".lstrip("."))
    elif here != there:
        yield f"{place} is {shown(there)} there and {shown(here)} here"


def _lock(file: RawIOBase) -> None:
    """BlockingIOError where another process has it; where there are no such locks, nobody is kept out."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
