"""What the tests of the service share: waiting for other processes, and seeing which are left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, seconds: float = 120.0) -> T:
    """What `look` gives as soon as that is true; the machine may be slow, so there is a lot of time."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {seconds} s"
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
