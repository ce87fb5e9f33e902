"""The screen: results on standard output, everything else on standard error, colours only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

WIDE = 160
"""The columns without a terminal: a program that reads the lines needs them unbroken."""
FOLDED = 12
"""The characters of a word that stay together, however narrow a table is."""

out = Console(
    highlight=False, width=None if sys.stdout is None or sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def plain(text: object) -> Text:
    """Literal text: neither markup nor control characters take effect, whatever the name of a file or a class is."""
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


def fitting(made: Table) -> RenderableType:
    """A table; or, on a screen that is too narrow for it, a paragraph for each row, headed by its first cell."""
    between = 2 if not made.pad_edge else 3
    if sum(_least_width(column) + between for column in made.columns) <= out.width:
        for column in made.columns:
            column.min_width = _least_width(column)
        return made
    rows = zip(*(column.cells for column in made.columns), strict=True)
    title = [made.title, ""] if made.title else []
    return Group(*title, *(_paragraph(row, made.columns) for row in rows))


def _paragraph(row: Sequence[RenderableType], columns: Sequence[Column]) -> RenderableType:
    listed = Table.grid(padding=(0, 2, 0, 0))
    listed.add_column()
    listed.add_column(overflow="fold")
    for column, cell in zip(columns[1:], row[1:], strict=True):
        listed.add_row(f"  {column.header}", cell)
    return Group(row[0], listed, "")


def _least_width(column: Column) -> int:
    """The width at which a column can be read."""
    cells = [Text.from_markup(cell).plain if isinstance(cell, str) else str(cell) for cell in column.cells]
    if column.no_wrap:
        return max(map(cell_len, [str(column.header), *cells]))
    words = " ".join([str(column.header), *cells]).split()
    return min(FOLDED, max(map(cell_len, words)))


def note(text: object) -> None:
    """Print a line that is not a result."""
    err.print(plain(text))
