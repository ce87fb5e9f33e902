"""What people see: results on standard output, everything else on standard error, colours on a terminal alone."""

from __future__ import annotations

import os
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 160
"""Columns where no terminal says how many: a program that reads the lines wants them whole."""

out = Console(
    highlight=False, width=None if sys.stdout is None or sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def plain(text: object) -> Text:
    """Text as it is: neither markup nor what a terminal would obey, whoever named the file or the class."""
    return Text("".join(character if character.isprintable() else "?" for character in str(text)))


def table(*columns: str, numbers: tuple[str, ...] = (), title: str | None = None, tight: bool = False) -> Table:
    """A table with text on the left and numbers, which are never cut, on the right."""
    padding = (0, 1, 0, 0) if tight else (0, 1)
    made = Table(box=box.SIMPLE, title=title, title_justify="left", padding=padding, pad_edge=not tight)
    for name in columns:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def note(text: object) -> None:
    """A line that is no result."""
    err.print(plain(text))
