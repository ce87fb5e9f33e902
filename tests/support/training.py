"""Training in the process of the test."""

from __future__ import annotations

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
