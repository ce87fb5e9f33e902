"""A chapter of a report or a study: sentences, tables and pictures about one thing, as Markdown, HTML and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from smoothcert.estimate import Estimate, plain
from smoothcert.tables import csv_text, html_table, literal, literal_cell, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ChapterTable:
    """A table; a cell may be an Estimate."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    folded: bool = False
    """Whether a page shows the caption alone until somebody opens the table."""

    def markdown(self) -> list[str]:
        rows = ([literal_cell(value) for value in row] for row in self.rows)
        return [literal(self.caption), "", *markdown_table(map(literal_cell, self.columns), rows)]

    def html(self) -> str:
        """The table in a fold with its caption; it is printed if it is open."""
        table = html_table(self.columns, self.rows)
        opened = "" if self.folded else " open"
        return f"<details{opened}><summary>{escape(self.caption)}</summary>{table}</details>"

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
class ChapterPicture:
    name: str
    caption: str
    figure: Figure

    def html(self) -> str:
        from smoothcert.plot import inline_svg

        caption = escape(self.caption)
        return f"<figure>{inline_svg(self.figure, self.name, caption)}<figcaption>{caption}</figcaption></figure>"


@dataclass(frozen=True)
class Chapter:
    """One analysis. `figures` are its numbers by name, those that a summary quotes."""

    name: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[ChapterTable] = ()
    pictures: Sequence[ChapterPicture] = ()
    figures: Sequence[tuple[str, float | Estimate]] = ()
    attachments: Sequence[tuple[str, str]] = ()
    """Further files by name, with their text."""

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        for sentence in self.sentences:
            lines += [literal(sentence), ""]
        for table in self.tables:
            lines += [*table.markdown(), ""]
        for picture in self.pictures:
            lines += [f"![{picture.caption}]({picture.name}.png)", "", f"*{picture.caption}*", ""]
        return "\n".join(lines)

    def html(self) -> str:
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)
        pictures = "".join(picture.html() for picture in self.pictures)
        tables = "".join(table.html() for table in self.tables)
        beside = f"<div class=pictures>{pictures}</div>" if pictures else ""
        return f"<section id={escape(self.name)}><h2>{escape(self.title)}</h2>{sentences}{beside}{tables}</section>"

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
