"""A bar that shows how far a certification has come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from smoothcert.certification import Progress

Report = Callable[[Progress], object]
Shown = bool | Report | None
"""Whether to show a bar; None for where somebody watches; or a function that is called with each Progress."""


@contextmanager
def showing(progress: Shown) -> Iterator[Report]:
    """What to call with each Progress."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        with _bar() as report:
            yield report
    else:
        yield unseen


def unseen(progress: Progress) -> None:
    """Where nobody watches."""


@contextmanager
def _bar() -> Iterator[Report]:
    from rich import progress as bars  # slow to import, and seldom needed
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[samples]:,} samples"),
        bars.TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with bars.Progress(*columns, console=console, transient=console.is_terminal) as shown:  # a log keeps the last state
        task = shown.add_task("certifying", total=None, samples=0)

        def report(progress: Progress) -> None:
            shown.update(task, completed=progress.images_done, total=progress.images_total, samples=progress.samples)

        yield report
