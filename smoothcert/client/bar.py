"""A progress bar for a certification."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from smoothcert.certification import Progress
from smoothcert.extras import needed_by

ProgressCallback = Callable[[Progress], object]
Shown = bool | ProgressCallback | None
"""Whether to show a bar; None for only on a terminal; or a function that is called with each Progress."""


@contextmanager
def showing(progress: Shown) -> Iterator[ProgressCallback]:
    """The function to call with each Progress."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty() and _has_rich()):
        with _bar() as report:
            yield report
    else:
        yield ignored


def ignored(progress: Progress) -> None:
    """The function to call where no progress is shown."""


def _has_rich() -> bool:
    return find_spec("rich") is not None


@contextmanager
def _bar() -> Iterator[ProgressCallback]:
    with needed_by("a progress bar"):
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
