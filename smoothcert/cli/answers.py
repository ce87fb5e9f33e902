"""Certificates as the result of a command: a table or JSON lines, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from smoothcert.cli.codes import ABSTAINED
from smoothcert.cli.screen import fitting, out, plain, table

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate


REASONS = {
    "abandoned": "the run was given up before its last sample",
    "exhausted": "the samples do not suffice for a proof",
    "no-class": "no class was counted among the samples",
    "undecided": "no class leads clearly enough",
}
"""What each reason for an abstention means."""


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
    """End the command with the exit code ABSTAINED if an answer is an abstention."""
    if any(each.decision == "abstain" for each in found):
        raise typer.Exit(ABSTAINED)


def _print_table(found: Sequence[Certificate], names: Sequence[object]) -> None:
    from smoothcert.figures import interval_text, radius_text
    from smoothcert.notebook import consequence, interval, sentence

    shown = table("image", "decision", "class", numbers=("radius", "p_A", "samples", "evaluations"), tight=True)
    shown.columns[1].no_wrap = True
    for name, each in zip(names, found, strict=True):
        claimed, p_a = each.decision == "certified", interval(each)
        shown.add_row(
            plain(name),
            f"[green]{each.outcome}[/]" if claimed else "[yellow]abstain[/]",
            plain((each.class_name or each.class_index) if claimed else "–"),
            radius_text(each.radius) if each.outcome == "certified" else "–",
            interval_text(p_a, 4) if p_a else "–",
            f"{each.samples:,}",
            "–" if each.evaluations is None else f"{each.evaluations:,}",
        )
    out.print(fitting(shown))
    if len(found) == 1:
        for text in filter(None, (sentence(found[0]), consequence(found[0]), _remains(found[0]))):
            out.print(plain(text), soft_wrap=True)
    elif abstained := sum(each.decision == "abstain" for each in found):
        out.print(
            f"{abstained:,} of {len(found):,} are abstentions: nothing is claimed about these images.", soft_wrap=True
        )
        for reason in dict.fromkeys(each.stop_reason for each in found if each.decision == "abstain"):
            out.print(f"  {reason}: {REASONS[reason]}", soft_wrap=True)
        for promise in dict.fromkeys(filter(None, map(_abandoning, found))):
            out.print(f"  {promise}", soft_wrap=True)
    for remark in dict.fromkeys(remark for each in found for remark in each.remarks):
        out.print(plain(f"note: {remark}"), soft_wrap=True)


def _remains(certificate: Certificate) -> str | None:
    """Why the answer is an abstention, and what can be done; None for a certificate."""
    from smoothcert.figures import radius_text, sureness
    from smoothcert.remainder import remainder

    if certificate.decision == "certified":
        return None
    text = " ".join(filter(None, (f"The reason: {REASONS[certificate.stop_reason]}.", _abandoning(certificate))))
    left = remainder(certificate)
    if left is None:
        return text
    if left.radius > 0:
        text += (
            f" These samples still prove the radius {radius_text(left.radius)} for class {left.class_index}, "
            f"{sureness(left.alpha)}."
        )
    if left.attempt is not None:
        text += f" A new certification may prove a smaller radius: try --radius {radius_text(left.attempt)}."
    return text


def _abandoning(certificate: Certificate) -> str | None:
    """What the procedure says of a run that was given up; None for every other."""
    return certificate.procedure.abandoning if certificate.stop_reason == "abandoned" else None
