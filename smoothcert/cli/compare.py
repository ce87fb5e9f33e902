"""`smoothcert compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli.codes import WORSE
from smoothcert.cli.files import require_writable, write
from smoothcert.cli.options import ApiKey, AsJson, Key, Url
from smoothcert.cli.screen import fitting, note, out, plain, table
from smoothcert.cli.sources import collected
from smoothcert.cli.verify import read_keys
from smoothcert.errors import DomainError

if TYPE_CHECKING:
    from smoothcert.comparison import Comparison

SOURCE = "A file of certificates, the folder of smoothcert evaluate or one of such files, or the id of a certification."


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help=SOURCE)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same images, certified by another ensemble.")],
    margin: Annotated[
        float, typer.Option(help="The points of certified accuracy that may be lost; the exit code is 3 beyond them.")
    ] = 0.0,
    radius: Annotated[
        list[float] | None, typer.Option(help="A radius to compare at, or several; those of the report if left out.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="That of all intervals together.")] = 0.95,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Also write a page, and its Markdown beside it.")
    ] = None,
    key: Key = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Compare two sets of certificates of the same images: is the new ensemble worse?

    The exit code is 3 if certified accuracy is lower by more than the margin at some radius, with confidence. Then a
    release pipeline stops.
    """
    from smoothcert.comparison import compare as compared

    if not margin >= 0 or margin > 100:
        raise DomainError(f"--margin must be points from 0 to 100, got {margin!r}")
    if not 0 < confidence < 1:
        raise DomainError(f"--confidence must be between 0 and 1, such as 0.95, got {confidence!r}")
    pages = [] if report is None else [report.with_suffix(".html"), report.with_suffix(".md")]
    for page in pages:
        require_writable(page)
    keys = None if key is None else read_keys(key)
    before, after = (collected(source, keys, url, api_key) for source in (old, new))
    found = compared(before, after, radii=radius or (), level=round(1 - confidence, 12))
    for page, text in zip(pages, (found.html(margin), found.markdown(margin)) if pages else (), strict=True):
        write(page, text)
    if as_json:
        print(json.dumps(found.as_json(margin)))
    else:
        _print(found)
    note(found.verdict(margin))
    if found.worse(margin):
        raise typer.Exit(WORSE)


def _print(found: Comparison) -> None:
    from smoothcert.comparison import COLUMNS
    from smoothcert.tables import show

    shown = table(numbers=COLUMNS, tight=True)
    for row in found.rows:
        shown.add_row(*(plain(show(value)) for value in row))
    out.print(fitting(shown))
