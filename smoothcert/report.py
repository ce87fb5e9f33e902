"""What an evaluation says: figures, the curve of certified accuracy, a row for each image."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothcert.evaluation import (
    Judged,
    average_certified_radius,
    certified_accuracy,
    consensus_rate,
    sample_reduction,
)
from smoothcert.figures import radius_text
from smoothcert.verdict import floor_radius

POINTS = 10
"""About so many rows of the curve."""
ABOUT = (
    "ACR is the mean over all images of the radius certified for the right class; certified accuracy is the percentage "
    "of all images certified for it at the radius; SampleRF is what Certify with n = 100,000 would "
    "have drawn, over what was drawn."
)


@dataclass(frozen=True)
class Report:
    """The certificates of a data set, each judged by its label."""

    name: str
    images: Sequence[str]
    judged: Sequence[Judged]

    @property
    def largest_radius(self) -> float:
        """Beyond which the curve means nothing: a target was not to be surpassed, and n samples prove no more."""
        certificate = self.judged[0].certificate
        if certificate.target_radius is not None:
            return certificate.target_radius
        return certificate.procedure.largest_radius(certificate.noise, alpha=certificate.alpha)

    @property
    def question(self) -> str:
        """What was asked, in words; it is the same for all images."""
        certificate = self.judged[0].certificate
        target, provenance = certificate.target_radius, certificate.provenance
        chosen = certificate.procedure.model_dump(exclude={"name"})
        parameters = "".join(f", {name} {_listed(value)}" for name, value in chosen.items())
        said = [
            f"procedure {certificate.procedure.name}{parameters}",
            "" if target is None else f"radius {target}",
            certificate.noise.label,
            f"alpha {certificate.alpha:g}",
            f"beta {certificate.beta:g}",
        ]
        if provenance:
            ensemble = provenance.ensemble
            said += [f"{len(ensemble.members)} members", f"voting {ensemble.voting}"]
            said += [f"consensus of {ensemble.consensus}"] if ensemble.consensus else []
        return ", ".join(filter(None, said))

    @cached_property
    def figures(self) -> dict[str, float]:
        """By name; accuracies are percentages of all images."""
        certificates = [each.certificate for each in self.judged]
        found = {
            "images": len(self.judged),
            "certified": sum(each.decision == "certified" for each in certificates),
            "certified for the right class": sum(each.certificate.class_index == each.label for each in self.judged),
            "ACR": average_certified_radius(self.judged),
            "samples per image": sum(each.samples for each in certificates) / len(certificates),
            "evaluations per image": sum(each.evaluations or 0 for each in certificates) / len(certificates),
            "SampleRF": sample_reduction(self.judged),
        }
        rate = consensus_rate(self.judged)
        return found if rate is None else {**found, "KCR, %": rate}

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """Radius, and the percentage of all images that are right and certified at it."""
        return [(radius, certified_accuracy(self.judged, radius)) for radius in ticks(self.largest_radius)]

    def as_json(self) -> dict[str, Any]:
        """Figures and curve."""
        curve = [{"radius": radius, "certified_accuracy": accuracy} for radius, accuracy in self.curve]
        return {"name": self.name, "question": self.question, "figures": self.figures, "curve": curve}

    def markdown(self) -> str:
        """For people."""
        figures = markdown_table(("figure", ""), self.figures.items())
        rows = ((radius_text(radius), accuracy) for radius, accuracy in self.curve)
        curve = markdown_table(("radius", "certified accuracy, %"), rows)
        return "\n".join([f"# {self.name}", "", self.question, "", *figures, "", ABOUT, "", *curve, ""])

    def curve_csv(self) -> str:
        """The curve."""
        return csv_text(("radius", "certified_accuracy"), self.curve)

    def images_csv(self) -> str:
        """A row for each image."""
        fields = ("decision", "class_index", "class_name", "radius", "samples", "evaluations", "stop_reason")
        rows = (
            (name, each.label, *(getattr(each.certificate, field) for field in fields))
            for name, each in zip(self.images, self.judged, strict=True)
        )
        return csv_text(("image", "label", *fields), rows)


def _listed(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def ticks(end: float) -> list[float]:
    """Round numbers from 0 to the end, and the end itself, floored to six decimals as radii are."""
    if end <= 0:
        return [0.0]
    size = 10 ** math.floor(math.log10(end / POINTS))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if end / (size * factor) <= POINTS)
    found = [round(i * step, 9) for i in range(math.floor(end / step) + 1)]
    return found if math.isclose(found[-1], end) else [*found, floor_radius(end)]


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Its lines."""
    names = list(columns)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(map(show, row)) + " |" for row in rows]


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A whole file."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return file.getvalue()


def show(value: object) -> str:
    """A number with the digits that matter."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
