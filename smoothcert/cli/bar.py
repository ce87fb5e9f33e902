"""How a long run gets on."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from smoothcert.cli.screen import err

SPEED_PERIOD_S = 600
"""Over which the speed is taken: an image may take minutes."""


def bar() -> Progress:
    """Images done, the time that they took, and the time left; on a terminal alone."""
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
