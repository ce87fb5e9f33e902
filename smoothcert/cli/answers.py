"""Certificates as the result of a command: a table or JSON lines, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from smoothcert.cli.codes import ABSTAINED
from smoothcert.cli.screen import fitting, out, plain, table

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate


def json_lines(found: Sequence[Certificate]) -> str:
    """A line for each certificate; `smoothcert verify` reads them."""
    return "".join(each.model_dump_json() + "\n" for each in found)


def print_certificates(found: Sequence[Certificate], names: Sequence[object], *, as_json: bool) -> None:
    """Print the certificates, `names` being the names of their images."""
    if as_json:
        print(json_lines(found), end="")
    else:
        _print_table(found, names)


def exit_if_abstained(found: Sequence[Certificate]) -> None:
    """End the command with the exit code ABSTAINED if an image was abstained from."""
    if any(each.decision == "abstain" for each in found):
        raise typer.Exit(ABSTAINED)


def _print_table(found: Sequence[Certificate], names: Sequence[object]) -> None:
    from smoothcert.figures import interval_text, radius_text
    from smoothcert.notebook import consequence, interval, sentence

    shown = table("image", "decision", "class", numbers=("radius", "p_A", "samples", "evaluations"), tight=True)
    shown.columns[1].no_wrap = True
    for name, each in zip(names, found, strict=True):
        certified, p_a = each.decision == "certified", interval(each)
        shown.add_row(
            plain(name),
            "[green]certified[/]" if certified else "[yellow]abstain[/]",
            plain((each.class_name or each.class_index) if certified else "–"),
            radius_text(each.radius) if certified else "–",
            interval_text(p_a, 4) if p_a else "–",
            f"{each.samples:,}",
            "–" if each.evaluations is None else f"{each.evaluations:,}",
        )
    out.print(fitting(shown))
    if len(found) == 1:
        for text in filter(None, (sentence(found[0]), consequence(found[0]))):
            out.print(plain(text), soft_wrap=True)
    for remark in dict.fromkeys(remark for each in found for remark in each.remarks):
        out.print(plain(f"note: {remark}"), soft_wrap=True)
