"""The report of an evaluation: figures, the curve of certified accuracy, a row for each image."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.evaluation import (
    Judged,
    average_certified_radius,
    certified_accuracy,
    consensus_rate,
    sample_reduction,
)
from smoothcert.extras import needed_by
from smoothcert.figures import counted, radius_text
from smoothcert.noise import Noise
from smoothcert.norms import measure
from smoothcert.verdict import floor_radius

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 10
"""The approximate number of rows of the curve."""
FIELDS = ("decision", "class_index", "class_name", "radius", "samples", "evaluations", "stop_reason")
"""The fields of a certificate that a row of an image shows."""
ABOUT = (
    "ACR is the mean over all images of the radius that is certified for the right class. Certified accuracy is the "
    "percentage of all images that are certified for the right class at the radius. SampleRF is the number of samples "
    "that Certify with n = 100,000 would have drawn, divided by the number that was drawn."
)


@dataclass(frozen=True, repr=False)
class Report:
    """The certificates of a data set, each judged by its label.

    A notebook shows the figures and the curve; `to_pandas` gives a row for each image, `plot` draws a picture.
    """

    name: str
    images: Sequence[str]
    """A name for each image, for example its file or its number."""
    judged: Sequence[Judged]

    @property
    def largest_radius(self) -> float:
        """The end of the curve: the target radius or, without a target, the largest radius that can be proved."""
        certificate = self.judged[0].certificate
        if certificate.target_radius is not None:
            return certificate.target_radius
        return certificate.question.largest_radius

    @property
    def question(self) -> str:
        """The question in words; it is the same for all images."""
        certificate = self.judged[0].certificate
        target, provenance = certificate.target_radius, certificate.provenance
        chosen = certificate.procedure.model_dump(exclude={"name"}, exclude_none=True)
        parameters = "".join(f", {name} {_listed(value)}" for name, value in chosen.items())
        parts = [
            f"procedure {certificate.procedure.name}{parameters}",
            "" if target is None else f"radius {radius_text(target)}",
            f"noise {certificate.noise.label}",
            "" if certificate.alpha is None else f"alpha {certificate.alpha:g}, beta {certificate.beta:g}",
        ]
        if provenance:
            ensemble = provenance.ensemble
            members = len(ensemble.members)
            parts += [counted(members, "member"), f"voting {ensemble.voting}"]
            parts += [f"consensus of {ensemble.consensus}"] if ensemble.consensus else []
        return ", ".join(filter(None, parts))

    @cached_property
    def figures(self) -> dict[str, float]:
        """The figures by name; KCR is there only where the ensemble ran with consensus."""
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
        """Pairs of a radius and the percentage of all images that are right and certified at it."""
        return [(radius, certified_accuracy(self.judged, radius)) for radius in self._radii]

    @property
    def _radii(self) -> Sequence[float]:
        """The radii of the curve: those that a run was asked for, where there are several, or round ones."""
        certificate = self.judged[0].certificate
        if certificate.target_radius is None and (asked := certificate.procedure.targets(None)):
            return asked
        return ticks(self.largest_radius, whole=self._noise.whole)

    @property
    def about(self) -> str:
        """What the radii and the figures mean."""
        return f"Radii are {measure(self._noise)}, for values in [0, 1]. {ABOUT}"

    @property
    def _noise(self) -> Noise:
        return self.judged[0].certificate.noise

    def as_json(self) -> dict[str, Any]:
        curve = [{"radius": radius, "certified_accuracy": accuracy} for radius, accuracy in self.curve]
        return {"name": self.name, "question": self.question, "figures": self.figures, "curve": curve}

    def markdown(self) -> str:
        figures = markdown_table(("figure", ""), self.figures.items())
        rows = ((radius_text(radius), accuracy) for radius, accuracy in self.curve)
        curve = markdown_table(("radius", "certified accuracy, %"), rows)
        return "\n".join([f"# {self.name}", "", self.question, "", *figures, "", self.about, "", *curve, ""])

    def __repr__(self) -> str:
        return f"Report({self.name!r}, {len(self.judged)} images, {self.question})"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        figures = html_table(("figure", ""), self.figures.items())
        curve = html_table(("radius", "certified accuracy, %"), ((radius_text(r), a) for r, a in self.curve))
        tables = f"<div style='display:flex;gap:2em;align-items:flex-start'>{figures}{curve}</div>"
        return f"<p><b>{escape(self.name)}</b><br>{escape(self.question)}</p>{tables}<p>{escape(self.about)}</p>"

    def to_pandas(self) -> pd.DataFrame:
        """A table with a row for each image; needs pandas."""
        with needed_by("Report.to_pandas"):
            import pandas as pd
        return pd.DataFrame([*self._rows()], columns=["image", "label", *FIELDS])

    def plot(self, path: str | Path | None = None) -> Figure:
        """The curve and the samples per image as a matplotlib figure, also written to `path` where one is given."""
        from smoothcert.plot import report_figure, save

        figure = report_figure(self)
        if path is not None:
            save(figure, Path(path))
        return figure

    def curve_csv(self) -> str:
        return csv_text(("radius", "certified_accuracy"), self.curve)

    def images_csv(self) -> str:
        """A row for each image."""
        return csv_text(("image", "label", *FIELDS), self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for name, each in zip(self.images, self.judged, strict=True):
            yield name, each.label, *(getattr(each.certificate, field) for field in FIELDS)


def _listed(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def ticks(end: float, *, whole: bool = False) -> list[float]:
    """Round numbers from 0 to the end, and the end itself, floored to six decimals like every radius.

    Where radii are whole numbers, so are these.
    """
    if end <= 0:
        return [0.0]
    size = 10 ** math.floor(math.log10(end / POINTS))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if end / (size * factor) <= POINTS)
    step = max(1, math.ceil(step)) if whole else step
    found = [round(i * step, 9) for i in range(math.floor(end / step) + 1)]
    return found if math.isclose(found[-1], end) else [*found, floor_radius(end)]


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table."""
    names = list(columns)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(map(show, row)) + " |" for row in rows]


def html_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(show(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The content of a CSV file."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return file.getvalue()


def show(value: object) -> str:
    """A value for people; a number has four significant digits, or none after the point from 1,000 on."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
