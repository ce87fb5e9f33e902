"""A progress bar over images, where rich is installed and somebody can see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from smoothcert.extras import MissingExtraError, needed_by


@contextmanager
def counting(total: int | None, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """A function to call with the samples of each finished image.

    The bar appears if `shown` is True, and if it is None on a terminal or in a notebook. It needs rich; without it
    True raises MissingExtraError and None shows nothing.
    """
    if shown is False:
        yield _ignore
        return
    try:
        with needed_by("a progress bar"):
            from rich import progress as bars
            from rich.console import Console
    except MissingExtraError:
        if shown:
            raise
        yield _ignore
        return
    console = Console(stderr=True)
    if shown is None and not (console.is_jupyter or (sys.stderr is not None and sys.stderr.isatty())):
        yield _ignore
        return
    columns = (
        bars.TextColumn("certifying"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[samples]:,} samples"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=console, transient=console.is_terminal) as progress:
        task = progress.add_task("certifying", total=total, samples=0)
        samples = 0

        def finished(more: int) -> None:
            nonlocal samples
            samples += more
            progress.update(task, advance=1, samples=samples)

        yield finished


def _ignore(samples: int) -> None:
    pass
