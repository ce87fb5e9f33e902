"""Tables as Markdown, HTML and CSV, and values as people read them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from html import escape

from smoothcert.notebook import Picture

_ACTIVE = re.compile(r"\\|<|(?<=\])(?=[(:\[])")
"""Where Markdown would see an escape, a tag of HTML, or the second half of a link."""


def literal(text: str) -> str:
    """A text in Markdown in which no tag, link or picture takes effect: names of files and classes may be a stranger's.

    It stays on one line. Emphasis and code are left as they are: they only change how letters look.
    """
    return _ACTIVE.sub(lambda found: f"\\{found[0]}", "".join(c if c.isprintable() else " " for c in text))


def literal_cell(value: object) -> str:
    """The same for a cell of a table, which a bar would end."""
    return literal(show(value)).replace("|", "\\|")


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table."""
    names = list(columns)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(map(show, row)) + " |" for row in rows]


def html_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; numbers are on the right, and a `Picture` is shown. There is no heading where no column has a name."""
    names = list(columns)
    head = "".join(f"<th>{escape(name)}" for name in names) if any(names) else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}\n" for row in rows)
    heading = f"<thead><tr>{head}</thead>" if head else ""
    return f"<table>{heading}<tbody>\n{body}</tbody></table>"


def _cell(value: object) -> str:
    """A cell without its end tag, which HTML does not need; a long table is smaller by a fifth."""
    if isinstance(value, Picture):
        return f"<td>{value.html()}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"<td{' class=n' * number}>{escape(show(value))}"


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The content of a CSV file."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return file.getvalue()


def show(value: object) -> str:
    """A value for people; a number has four significant digits, or none after the point from 1,000 on."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
