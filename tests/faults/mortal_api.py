"""`python -m app` that kills itself at a step of its archivist; the file `dies_at` has the number of the step.

The moments before and after every call of the storage, of Redis for it, and of every sync of a file are steps, so that
death comes between any two things that the archive does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from app import __main__ as command
from app.archive import storage
from app.redis.queue import Queue
from store import archival

FILE = Path(os.environ["SMOOTHCERT_ARCHIVE"]).with_name("dies_at")
LOCK = threading.Lock()

archival.LEASE_S = 2.0  # a minute for each death would stretch the tries to an hour


def step() -> None:
    with LOCK:
        try:
            left = int(FILE.read_text()) - 1
        except FileNotFoundError:
            return
        if left <= 0:
            FILE.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        FILE.write_text(str(left))


def stepping(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def stepped(*arguments: Any, **options: Any) -> Any:
        step()
        result = call(*arguments, **options)
        step()
        return result

    return stepped


def asking(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(call)
    async def stepped(queue: Queue, command: Any) -> Any:
        settling = command.script in (archival.ARCHIVE_CLAIM, archival.ARCHIVE_DONE)
        if command.script == archival.ARCHIVE_DONE:
            step()
        answer = await call(queue, command)
        if settling and answer:
            step()
        return answer

    return stepped


class SteppingSystem:
    """The module `os`, as the storage sees it."""

    fsync = staticmethod(stepping(os.fsync))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


storage.Folder.write = stepping(storage.Folder.write)  # type: ignore[method-assign]
storage.Folder.remove = stepping(storage.Folder.remove)  # type: ignore[method-assign]
storage.os = SteppingSystem()  # type: ignore[assignment]
Queue.ask = asking(Queue.ask)  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(command.main([]))
