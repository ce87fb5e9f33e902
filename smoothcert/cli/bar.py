"""The progress bar of a long run."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from smoothcert.cli.screen import err

SPEED_PERIOD_S = 600
"""The seconds over which the speed is averaged; long, because one image may take minutes."""


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
