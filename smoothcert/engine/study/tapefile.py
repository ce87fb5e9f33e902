"""The file of a tape: a line of JSON that says what was recorded, followed by the bytes.

The file is replaced as a whole, so a killed run loses only seconds of work. Two processes may fill one folder, best
with different images: on the same image both do the same work, and the process that writes last leaves its file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.errors import LedgerError
from smoothcert.seeds import new_seed


@dataclass(frozen=True)
class TapeFile:
    """One file of a folder of tapes."""

    path: Path
    identity: Mapping[str, Any]
    """Everything that the recorded bytes depend on; a file with another identity is refused."""
    size: Callable[[int], int]
    """The number of bytes that this many samples take."""

    def read(self) -> tuple[int, bytes]:
        """The number of samples and their bytes; none if there is no file. LedgerError if it has another identity."""
        if not self.path.exists():
            return 0, b""
        first, _, body = self.path.read_bytes().partition(b"\n")
        try:
            header = dict(json.loads(first))
            samples, sha256 = int(header["samples"]), header["sha256"]
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"{self.path} is damaged: {error!r}; remove it") from error
        expected = json.loads(json.dumps(self.identity))  # as JSON reads it back
        other = {key: header.get(key) for key, value in expected.items() if header.get(key) != value}
        if other:
            raise LedgerError(f"{self.path} is the tape of something else, with {other}; name another folder")
        if hashlib.sha256(body).hexdigest() != sha256 or len(body) != self.size(samples):
            raise LedgerError(
                f"{self.path} is damaged: its {len(body)} bytes are not those that were written; remove it"
            )
        return samples, body

    def write(self, samples: int, body: bytes | memoryview) -> None:
        """Replace the file as a whole, or leave it as it is and raise LedgerError."""
        header = {**self.identity, "samples": samples, "sha256": hashlib.sha256(body).hexdigest()}
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise LedgerError(f"cannot write {self.path}: {error}; the previous tape is unharmed") from error
        finally:
            partial.unlink(missing_ok=True)


def folder_seed(folder: Path) -> str:
    """The seed of all noise in a folder of tapes, which the first process draws."""
    path = folder / "seed"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            drawn = path.with_name(f"seed.{os.getpid()}.partial")
            drawn.write_text(new_seed())
            with suppress(FileExistsError):  # another process was faster
                os.link(drawn, path)
            drawn.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise LedgerError(f"cannot keep tapes in {folder}: {error}") from error
