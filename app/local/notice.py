"""A child that says when it is ready, by the protocol of systemd: it sends READY=1 to the socket NOTIFY_SOCKET.

Each start of the command has a socket of its own, so a process that ended cannot be mistaken for the next one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from app.local.guard import Guarded

READY = b"READY=1"
LONGEST_MESSAGE = 4096


class Telling(Guarded):
    """A guarded command that is ready when it says so."""

    def __init__(self, command: Sequence[str | os.PathLike[str]], *, environment: Mapping[str, str]) -> None:
        self._told = False
        self._folder = TemporaryDirectory(prefix="smoothcert-")  # has mode 0700
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            address = str(Path(self._folder.name, "notify"))
            self._socket.bind(address)
            super().__init__(command, environment={**environment, "NOTIFY_SOCKET": address})
        except BaseException:
            self._close()
            raise

    @property
    def ready(self) -> bool:
        """Whether the command has said that it is ready."""
        while not self._told:
            try:
                self._told = READY in self._socket.recv(LONGEST_MESSAGE).splitlines()
            except OSError:  # nothing has come, or it was killed
                break
        return self._told

    def kill(self) -> None:
        super().kill()
        self._close()

    def _close(self) -> None:
        self._socket.close()
        self._folder.cleanup()
