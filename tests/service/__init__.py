"""Helpers of the service's tests: waiting for other processes, finding processes that are left, separate databases."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE_S = 120.0
"""The seconds to wait for anything; the machine may be slow."""
T = TypeVar("T")


def eventually(look: Callable[[], T], what: str = "it", *, patience: float = PATIENCE_S) -> T:
    """The value of `look` as soon as it is true."""
    deadline = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {patience:g} s for {what}, which is still {seen!r}"
        time.sleep(0.02)
    return seen


def running_in(folder: Path) -> dict[int, str]:
    """The other processes whose working directory is in this folder, with their command lines."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if (process / "cwd").readlink().is_relative_to(folder):
                    found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it ended meanwhile
                continue
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def database(url: str, number: int) -> str:
    """Another database of an embedded server, which sees nothing of the first one."""
    first = "?db=0"
    assert url.endswith(first), url
    return f"{url.removesuffix(first)}?db={number}"
