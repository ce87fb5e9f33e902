"""The function that RQ's jobs name."""

from __future__ import annotations

from typing import NoReturn

from workers.errors import WorkerError


def certification(certification: str) -> NoReturn:
    """A placeholder: RQ requires a job to name a function, and its tools show this name.

    `python -m workers` takes the certification from RQ's queue and never calls this function. Only RQ's own worker
    would, if one were started on our queue.
    """
    raise WorkerError(f"{certification} must be executed by `python -m workers`; RQ's own worker cannot do it")
