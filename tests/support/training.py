"""Training in the process of the test, and one that does not end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from models.training.members import Task
from smoothcert.errors import SmoothcertError


def ending(task: Task) -> SmoothcertError | None:
    """Train a member; the error that ended the training early, as it is sent to the parent process, if one did."""
    messages: Any = SimpleQueue()
    with suppress(SystemExit):
        task.run(messages)
    last = None
    while not messages.empty():
        _, last = messages.get()
    return last if isinstance(last, SmoothcertError) else None


class Endless(Task):
    """A member whose training tells its process and does not end."""

    def run(self, messages: Any) -> None:
        (self.out / "pid").write_text(str(os.getpid()))
        signal.pause()
