"""The result of a benchmark: what it compares, on which machine, a table, and figures that may have a goal."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from smoothcert.chapter import ChapterTable
from smoothcert.estimate import plain
from smoothcert.tables import markdown_table, show


@dataclass(frozen=True)
class Figure:
    """A measured number and, where one is set, its goal."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None

    @property
    def goal(self) -> str:
        """The goal in words; empty where none is set."""
        if self.above is not None:
            return f"> {self.above:g}"
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    @property
    def reached(self) -> bool:
        """Whether the goal is met. NaN does not meet any goal; a figure without one always does."""
        if self.above is not None:
            return self.value > self.above
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.at_most is None or self.value <= self.at_most


@dataclass(frozen=True)
class Result:
    """The result of one benchmark."""

    name: str
    compares: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    figures: Sequence[Figure]
    notes: Sequence[str] = ()
    machine: str = field(default_factory=lambda: machine())
    tables: Sequence[ChapterTable] = ()
    """Further tables, below the figures."""

    @property
    def reached(self) -> bool:
        return all(figure.reached for figure in self.figures)

    def as_json(self) -> str:
        figures = [{**vars(figure), "reached": figure.reached} for figure in self.figures]
        rows = [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows]
        heading = {"name": self.name, "compares": self.compares, "machine": self.machine}
        tables = {"tables": [table.as_json() for table in self.tables]} if self.tables else {}
        return json.dumps({**heading, "rows": rows, "figures": figures, "notes": list(self.notes), **tables})

    def print(self) -> None:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        console.print(f"[bold]{self.name}[/]: {self.compares}")
        console.print(f"on {self.machine}", style="dim")
        console.print(_printed(self.columns, self.rows))
        for figure in self.figures:
            mark = "" if not figure.goal else "  [green]reached[/]" if figure.reached else "  [red]missed[/]"
            console.print(f"{figure.name}: [bold]{show(figure.value)}[/] {figure.goal}{mark}")
        for table in self.tables:
            console.print(table.caption)
            console.print(_printed(table.columns, table.rows))
        for note in self.notes:
            console.print(note, style="dim")

    def write_markdown(self, path: Path, *, command: str) -> None:
        """Write the table as it is committed, with the command that produced it."""
        lines = [f"# {self.name}", "", self.compares, "", f"Made by `{command}` on {self.machine}.", ""]
        lines += markdown_table(self.columns, self.rows)
        if self.figures:
            lines += ["", "| figure | measured | goal | |", "|---|---|---|---|"]
        for figure in self.figures:
            mark = "" if not figure.goal else "reached" if figure.reached else "missed"
            lines.append(f"| {figure.name} | {show(figure.value)} | {figure.goal} | {mark} |")
        for table in self.tables:
            lines += ["", *table.markdown()]
        for note in self.notes:
            lines += ["", note]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines).rstrip() + "\n")


def _printed(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table for the console."""
    longest = max((len(show(row[0])) for row in rows), default=0)
    table = Table(*columns, box=box.SIMPLE)
    table.columns[0].min_width = min(longest, 24)  # rich would cut names without spaces instead of wrapping them
    for row in rows:
        table.add_row(*map(show, row))
    return table


def machine() -> str:
    """The processor, its cores and the interpreter, in words."""
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"
