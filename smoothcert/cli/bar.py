"""The progress of a long run: a bar on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from smoothcert.cli.screen import err

if TYPE_CHECKING:
    from smoothcert.certification import Progress as Done

SPEED_PERIOD_S = 600
"""The seconds over which the speed is averaged; long, because one image may take minutes."""

LINE_S = 10.0
"""The seconds between two lines; a certification that takes less has none."""


def lines() -> Callable[[Done], None] | None:
    """What prints the progress of a certification where there is no terminal; None where a bar shows it."""
    if err.is_terminal:
        return None
    last = time.monotonic()

    def report(done: Done) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= LINE_S:
            last = now
            err.print(f"{done.images_done:,} of {done.images_total:,} images done, {done.samples:,} samples")

    return report


def bar() -> Progress:
    """The images done, the time elapsed and the time left; only on a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
        speed_estimate_period=SPEED_PERIOD_S,
    )
