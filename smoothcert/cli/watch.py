from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from smoothcert.cli import bar
from smoothcert.cli.answers import exit_if_abstained, print_certificates
from smoothcert.cli.files import require_writable, write
from smoothcert.cli.options import ApiKey, AsJson, Attest, Url, connected
from smoothcert.cli.screen import err, note, plain, table
from smoothcert.figures import interval_text

if TYPE_CHECKING:
    from smoothcert.certification import CertificationSummary, Progress
    from smoothcert.client import Client
    from smoothcert.client.events import Event

MOST_IMAGES = 12
"""The most rows of images under way that are shown."""


def watch(
    certification: Annotated[str, typer.Argument(metavar="ID", help="The id of the certification: cert_...")],
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
    attest: Attest = None,
) -> None:
    """Follow a certification to its end, and print its certificates.

    Ctrl-C ends only the command: the certification goes on. The exit code is 3 if there are abstentions.
    """
    from smoothcert.client.outcome import certificates, sealed

    if attest:
        require_writable(attest)
    with connected(url, api_key) as client:
        try:
            _follow(client, certification)
            ended = client.certifications.wait(certification, progress=False)
            found = certificates(ended)
            if attest:
                attestations = client.certifications.attestations(certification)
                write(attest, "".join(f"{each.attestation}\n" for each in sealed(found, attestations)))
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"the certification goes on; `smoothcert watch {certification}` follows it again")
            raise
    print_certificates(found, [each.index for each in found], as_json=as_json)
    exit_if_abstained(found)


def _follow(client: Client, certification: str) -> None:
    """Show every event in a live view on a terminal; elsewhere changes of the status, and the progress now and then."""
    view, report = CertificationView(certification), bar.lines()
    with Live(console=err, transient=True) if err.is_terminal else nullcontext() as live:
        for event in client.certifications.events(certification):
            changed = view.update(event)
            if live:
                live.update(view.render())
            elif changed:
                note(f"{certification}: {view.status}")
            if report and event.name == "progress" and event.progress:
                report(event.progress)


class CertificationView:
    """A certification under way, as its events describe it."""

    def __init__(self, certification: str) -> None:
        self.certification, self.status = certification, ""
        self._progress: Progress | None = None

    def update(self, event: Event) -> bool:
        """Apply an event; returns whether the status has changed."""
        before = self.status
        if event.name in ("status", "completed"):
            self.status = _status(event.data)  # type: ignore[arg-type]
        self._progress = event.progress or self._progress
        return self.status != before

    def render(self) -> RenderableType:
        lines: list[RenderableType] = [plain(f"{self.certification}: {self.status}")]
        if (progress := self._progress) is not None:
            done = f"{progress.images_done} of {progress.images_total} images done"
            lines.append(f"{done}, {progress.samples:,} samples, {progress.evaluations:,} evaluations")
            if progress.images:
                lines.append(_under_way(progress))
        return Group(*lines)


def _status(summary: CertificationSummary) -> str:
    waiting = summary.queue_position
    return summary.status if waiting is None else f"{summary.status}, {waiting} before it"


def _under_way(progress: Progress) -> RenderableType:
    shown = table("image", "stage", numbers=("samples", "class", "on the class", "p_A"), tight=True)
    for each in progress.images[:MOST_IMAGES]:
        shown.add_row(
            str(each.index),
            str(each.stage) if each.stage else "choosing the class",
            f"{each.samples:,}",
            "–" if each.class_index is None else str(each.class_index),
            f"{each.count:,} of {each.n:,}",
            "–" if each.p_interval is None else interval_text(each.p_interval, 4),
        )
    return shown
