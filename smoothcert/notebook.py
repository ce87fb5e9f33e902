"""The HTML of a certificate in a notebook: the claim in words, radius, interval, stages, and the image if known.

The HTML contains no script and no link, and every text is escaped, since a certificate may come from a stranger.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from smoothcert.figures import counted, interval_text, radius_text, sureness
from smoothcert.implication import Implication, implied
from smoothcert.norms import measured, perturbation, size

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate

MOST_STAGES = 12
"""The most rows of the table of stages. A sequential test may take 69 looks or more; the last ones decide."""
_SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"RIFF": "webp"}


@dataclass(frozen=True)
class Picture:
    """The image beside a certificate. All pictures compare equal, so that they do not tell certificates apart."""

    file: bytes | None = field(default=None, compare=False)

    def html(self) -> str:
        """An inline image; empty where there is no file, or one that is not a PNG, JPEG or WebP file."""
        kind = next((kind for start, kind in _SIGNATURES.items() if self.file and self.file.startswith(start)), None)
        if self.file is None or kind is None:
            return ""
        data = base64.b64encode(self.file).decode()
        style = "width:8em;image-rendering:pixelated"
        return f"<img alt='the image' style='{style}' src='data:image/{kind};base64,{data}'>"

    def __str__(self) -> str:
        return ""


def html(certificate: Certificate, image: bytes | None = None) -> str:
    """The certificate beside its image, which is the content of a PNG, JPEG or WebP file."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in _facts(certificate)
    )
    return (
        f"<div style='display:flex;gap:1em;align-items:flex-start'>{Picture(image).html()}<div>"
        f"<p><b>{escape(sentence(certificate))}</b></p>{_consequence(certificate)}"
        f"{''.join(f'<p>{escape(remark)}</p>' for remark in certificate.remarks)}"
        f"<table>{rows}</table>{_stages(certificate)}</div></div>"
    )


def sentence(certificate: Certificate) -> str:
    """The claim in words, which depend on the norm of the noise."""
    if certificate.decision == "abstain":
        return f"Abstained after {certificate.samples:,} samples ({certificate.stop_reason}): nothing is claimed."
    name = certificate.class_name or f"class {certificate.class_index}"
    index, sure = certificate.class_index, sureness(certificate.alpha)
    answer = "answer" if index is None or certificate.procedure.class_name(index) is None else "superclass"
    if certificate.radius == 0:
        return f"The {answer} at the image itself is {name!r}, {sure}; nothing is claimed about perturbations."
    return f"No {perturbation(certificate.noise, certificate.radius)} changes the {answer} {name!r}, {sure}."


def consequence(certificate: Certificate) -> str | None:
    """What the claim says in other norms, as a sentence; None where it says nothing."""
    found = implied(certificate)
    if not found:
        return None
    among = " among 8-bit images" if certificate.noise.eight_bit else ""
    return f"By geometry, the same holds{among} for every perturbation {' or '.join(map(_size, found))}."


def _size(found: Implication) -> str:
    if found.norm != "l0":
        return size(found.norm, found.radius)
    kept = "" if found.eight_bit else " and keeps them in [0, 1]"
    return f"that changes at most {radius_text(found.radius)} value{'s' * (found.radius != 1)}{kept}"


def _consequence(certificate: Certificate) -> str:
    text = consequence(certificate)
    return f"<p>{escape(text)}</p>" if text else ""


def _facts(certificate: Certificate) -> Iterable[tuple[str, str]]:
    yield "decision", certificate.decision
    yield "radius", measured(certificate.noise, certificate.radius)
    if certificate.target_radius is not None:
        yield "target radius", measured(certificate.noise, certificate.target_radius)
    if p_a := interval(certificate):
        yield "probability of the class", interval_text(p_a, 6)
    yield "noise", certificate.noise.label
    levels = "" if certificate.alpha is None else f", alpha {certificate.alpha:g}, beta {certificate.beta:g}"
    yield "procedure", f"{certificate.procedure.name}{levels}"
    evaluations = "" if certificate.evaluations is None else f", {certificate.evaluations:,} evaluations"
    yield "samples", f"{certificate.samples:,}{evaluations}"
    if certificate.provenance:
        yield "ensemble", certificate.provenance.ensemble.name


def interval(certificate: Certificate) -> tuple[float, float] | None:
    """The interval of p_A from the last stage; None where there is no stage or it bounds neither side."""
    if not certificate.stages:
        return None
    last = certificate.stages[-1]
    lower, upper = certificate.p_lower if last.p_lower is None else last.p_lower, last.p_upper
    if lower is None and upper is None:
        return None
    return 0.0 if lower is None else lower, 1.0 if upper is None else upper


def _stages(certificate: Certificate) -> str:
    stages = certificate.stages
    shown = list(enumerate(stages, 1))[-MOST_STAGES:]
    left_out = len(stages) - len(shown)
    rows = "".join(
        f"<tr><td>{number}</td><td>{stage.n:,}</td><td>{stage.count:,}</td><td>{escape(stage.outcome)}</td></tr>"
        for number, stage in shown
    )
    title = counted(len(stages), "stage") + (f", the last {len(shown)} of them" if left_out else "")
    head = "<tr><th>stage</th><th>samples</th><th>on the class</th><th>outcome</th></tr>"
    return f"<details><summary>{title}</summary><table>{head}{rows}</table></details>"
