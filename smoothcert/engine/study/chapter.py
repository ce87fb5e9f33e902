"""A chapter of a study: sentences, tables and pictures of one analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcert.engine.study.estimate import Estimate, plain
from smoothcert.report import csv_text, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StudyTable:
    """A table; a cell may be an Estimate."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def markdown(self) -> list[str]:
        return [self.caption, "", *markdown_table(self.columns, self.rows)]

    def csv(self) -> str:
        """The table with the ends of its intervals in columns of their own."""
        wide = [any(isinstance(row[place], Estimate) for row in self.rows) for place in range(len(self.columns))]
        names = [
            part
            for name, spread in zip(self.columns, wide, strict=True)
            for part in ([name, f"{name}, low", f"{name}, high"] if spread else [name])
        ]
        return csv_text(names, ([part for cell, s in zip(row, wide, strict=True) for part in _parts(cell, s)]
                                for row in self.rows))  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows]
        return {"name": self.name, "caption": self.caption, "rows": rows}


@dataclass(frozen=True)
class StudyPicture:
    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Chapter:
    """One analysis. `figures` are its numbers by name, those that a summary quotes."""

    name: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[StudyTable] = ()
    pictures: Sequence[StudyPicture] = ()
    figures: Sequence[tuple[str, float | Estimate]] = ()
    attachments: Sequence[tuple[str, str]] = ()
    """Further files by name, with their text."""

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        for sentence in self.sentences:
            lines += [sentence, ""]
        for table in self.tables:
            lines += [*table.markdown(), ""]
        for picture in self.pictures:
            lines += [f"![{picture.caption}]({picture.name}.png)", "", f"*{picture.caption}*", ""]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "sentences": list(self.sentences),
            "figures": {name: plain(value) for name, value in self.figures},
            "tables": [table.as_json() for table in self.tables],
            "pictures": [f"{picture.name}.png" for picture in self.pictures],
        }


def _parts(cell: Any, spread: bool) -> list[Any]:
    if not spread:
        return [cell]
    return [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell, "", ""]
