"""A file of JSON lines that grows by whole lines: the finished work of a long run, so that a later run can go on.

The first line describes the run; a run with other parameters is refused, unless nothing was finished. A line that a
crash has cut short is dropped. Only one run at a time has the file open.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import RawIOBase
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from smoothcert.errors import LedgerError, shown

BEGINNING = b'{"run": '
"""The bytes that every ledger begins with."""
REMEDY = "remove that line and those after it, or name another file"


class Ledger:
    """The finished lines of one run; a context manager."""

    def __init__(self, path: Path, run: Mapping[str, Any], *, once: Mapping[str, Any] | None = None) -> None:
        """Open or begin the ledger of this run; `once` holds what its first start decides for all later ones."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise LedgerError(f"{path} is not a regular file, and a ledger must be one")
        self.run: dict[str, Any] = json.loads(json.dumps(run))
        self.once = dict(once or {})
        self._count = 0
        self._file = path.open("ab", buffering=0)  # unbuffered, so that closing it after a failure writes nothing more
        try:
            self._require_alone()
            kept = self._kept()
            os.truncate(path, kept)
            if not kept:
                self._write({"run": self.run, "once": self.once})
        except BaseException:
            self.close()
            raise

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line; it is on disk when this returns."""
        self._write(line)
        self._count += 1

    def __len__(self) -> int:
        """The number of finished lines."""
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The finished lines, read from the file one by one: all of them may not fit into memory."""
        with self.path.open("rb") as file:
            for number, line in enumerate(islice(file, 1 + self._count), 1):
                if number > 1:
                    yield self._parsed(number, line)

    def close(self) -> None:
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

    def _kept(self) -> int:
        """The size in bytes of the whole lines that this run goes on from; 0 if it begins anew."""
        with self.path.open("rb") as file:
            head = file.readline()
            if not head.startswith(BEGINNING[: len(head)]):
                raise LedgerError(f"{self.path} is not a ledger and would be overwritten: name another file")
            if not head.endswith(b"\n"):
                return 0
            first = self._parsed(1, head)
            sizes = [len(line) for line in file if line.endswith(b"\n")]
        other = [*differences(self.run, first["run"])]
        if other and sizes:
            detail = "; ".join(other)
            raise LedgerError(f"{self.path} belongs to another run: {detail}; name another file or remove it")
        if other:
            return 0
        self.once, self._count = first.get("once", {}), len(sizes)
        return len(head) + sum(sizes)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        with suppress(ValueError):
            if isinstance(record := json.loads(line), dict):
                return record
        raise LedgerError(f"{self.path}, line {number} cannot be read: {shown(line)}; {REMEDY}")

    def _write(self, line: Mapping[str, Any]) -> None:
        before = os.fstat(self._file.fileno()).st_size
        left = memoryview(json.dumps(line).encode() + b"\n")
        try:
            while left:  # a nearly full disk accepts only a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            os.truncate(self.path, before)
            raise LedgerError(f"cannot write {self.path}: {error}; the lines before it are intact") from error


def differences(here: Any, there: Any, place: str = "") -> Iterator[str]:
    """Sentences about the parameters in which two runs differ, `there` and `here`; one that is left out is None."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in here | there:
            yield from differences(here.get(key), there.get(key), f"{place}.{key}".lstrip("."))
    elif here != there:
        yield f"{place} is {shown(there)} there and {shown(here)} here"


def _lock(file: RawIOBase) -> None:
    """Lock the file; BlockingIOError if another process has locked it. Without fcntl nothing is locked."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
