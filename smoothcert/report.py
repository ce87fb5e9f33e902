"""The report of an evaluation: figures, the curve of certified accuracy, a row for each image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import account
from smoothcert.account import ABOUT, NO_EVIDENCE, Evidence
from smoothcert.certificate import Certificate
from smoothcert.chapter import Chapter
from smoothcert.errors import SmoothcertError
from smoothcert.estimate import Bootstrap, Estimate
from smoothcert.evaluation import (
    Judged,
    average_certified_radius,
    consensus_rate,
    population_accuracy,
    sample_reduction,
)
from smoothcert.extras import is_installed, needed_by
from smoothcert.figures import counted, radius_text
from smoothcert.noise import Noise
from smoothcert.norms import measure
from smoothcert.tables import csv_text, html_table, literal
from smoothcert.verdict import floor_radius
from smoothcert.webpage import webpage

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 10
"""The approximate number of rows of the curve."""
FIELDS = ("decision", "class_index", "class_name", "radius", "samples", "evaluations", "stop_reason")
"""The fields of a certificate that a row of an image shows."""


@dataclass(frozen=True, repr=False)
class Report:
    """The certificates of a data set, each judged by its label.

    A notebook shows the figures and the curve; `to_pandas` gives a row for each image, `plot` draws a picture, and
    `html` and `markdown` are complete reports.
    """

    name: str
    images: Sequence[str]
    """A name for each image, for example its file or its number."""
    judged: Sequence[Judged]
    evidence: Evidence = NO_EVIDENCE

    @cached_property
    def first(self) -> Certificate:
        """A certificate that asks the question; one with a problem may have been altered."""
        return next((each for each in self.judged if each.sound), self.judged[0]).certificate

    @property
    def labelled(self) -> bool:
        return any(each.label is not None for each in self.judged)

    @property
    def accuracy_name(self) -> str:
        """What the curve shows; without labels nobody can tell whether a class is right."""
        return "certified accuracy, %" if self.labelled else "certified, %"

    @property
    def largest_radius(self) -> float:
        """The end of the curve: the target radius or, without a target, the largest radius that can be proved."""
        if self.first.target_radius is not None:
            return self.first.target_radius
        return self.first.question.largest_radius

    @property
    def question(self) -> str:
        """The question in words; it is the same for all images."""
        certificate = self.first
        target, provenance, procedure = certificate.target_radius, certificate.provenance, certificate.procedure
        chosen = procedure.model_dump(exclude={"name", *procedure.own}, exclude_none=True)
        parameters = "".join(f", {name} {_listed(value)}" for name, value in chosen.items())
        parts = [
            f"procedure {procedure.name}{parameters}",
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
        """The figures by name; KCR only if the ensemble ran with consensus."""
        certificates = [each.certificate for each in self.judged]
        found = {
            "images": len(self.judged),
            "certified": sum(each.sound and each.certificate.decision == "certified" for each in self.judged),
            "certified for the right class": sum(each.right for each in self.judged),
            "ACR": average_certified_radius(self.judged),
            "samples per image": sum(each.samples for each in certificates) / len(certificates),
            "evaluations per image": sum(each.evaluations or 0 for each in certificates) / len(certificates),
            "SampleRF": sample_reduction(self.judged),
        }
        if not self.labelled:
            del found["certified for the right class"]
        rate = consensus_rate(self.judged)
        return found if rate is None else {**found, "KCR, %": rate}

    @cached_property
    def acr(self) -> Estimate:
        """The ACR with its bootstrap interval over images."""
        return Bootstrap(len(self.judged)).mean([each.correct_radius for each in self.judged])

    @property
    def rows(self) -> list[tuple[str, object]]:
        """The figures as a table has them: the ACR with its interval."""
        return [(name, self.acr if name == "ACR" else value) for name, value in self.figures.items()]

    @cached_property
    def curve(self) -> list[tuple[float, Estimate]]:
        """Pairs of a radius and the percentage of all images that are right and certified at it, with its interval.

        Where one radius was asked for, there is one pair: at all smaller radii the share is the same.
        """
        radii = self.radii if self.curved else (self.largest_radius,)
        return [(radius, population_accuracy(self.judged, radius)) for radius in radii]

    @property
    def curved(self) -> bool:
        """Whether images are certified at different radii, so that there is a curve to draw."""
        return self.first.target_radius is None

    @property
    def radii(self) -> Sequence[float]:
        """The radii of the curve: those that a run was asked for, where there are several, or round ones."""
        if self.first.target_radius is None and (targets := self.first.procedure.targets(None)):
            return targets
        return ticks(self.largest_radius, whole=self._noise.whole)

    @property
    def about(self) -> str:
        """What the radii and the figures mean."""
        return f"Radii are {measure(self._noise)}, for values in [0, 1]. {ABOUT}"

    @property
    def _noise(self) -> Noise:
        return self.first.noise

    @cached_property
    def problems(self) -> Sequence[str]:
        """What is wrong with each certificate, as a sentence that is empty where nothing is."""
        found = self.evidence.problems
        return account.problems(self.judged) if found is None else found

    @cached_property
    def pictures(self) -> Sequence[bytes | None]:
        """The images that fit into a page, in the order of the certificates; empty where none are given."""
        return account.within(self.evidence.pictures)

    @property
    def warning(self) -> str:
        """What a reader must know first; empty where nothing is wrong."""
        wrong = sum(map(bool, self.problems))
        files = [file for file, found in self.evidence.examinations if not found]
        if not wrong and not files:
            return ""
        named = f" in {', '.join(files)}" if files else ""
        return f"Something is wrong{named}: {wrong:,} of {len(self.judged):,} certificates; see Verification."

    @property
    def lead(self) -> str:
        """The result in a sentence."""
        right = " for the right class" if self.labelled else ""
        found = sum(each.right for each in self.judged)
        return f"{found:,} of {len(self.judged):,} images are certified{right}. The ACR is {self.acr}."

    def chapters(self, *, drawn: bool = False) -> list[Chapter]:
        """The whole report; with pictures if they are `drawn`, which needs matplotlib."""
        return account.chapters(self, drawn=drawn)

    def as_json(self) -> dict[str, Any]:
        accuracy = "certified_accuracy" if self.labelled else "certified"
        curve = [
            {"radius": radius, accuracy: found.value, "low": found.low, "high": found.high}
            for radius, found in self.curve
        ]
        return {
            "name": self.name,
            "question": self.question,
            "figures": self.figures,
            "intervals": {"ACR": [self.acr.low, self.acr.high]},
            "curve": curve,
            "wrong": sum(map(bool, self.problems)),
        }

    def markdown(self) -> str:
        warning = [f"**{literal(self.warning)}**", ""] if self.warning else []
        lines = [f"# {literal(self.name)}", "", *warning, self.lead, ""]
        return "\n".join([*lines, *(chapter.markdown() for chapter in self.chapters())]).rstrip() + "\n"

    def html(self) -> str:
        """One self-contained page. It has pictures if matplotlib is installed, which the extra `plot` does."""
        drawn = is_installed("matplotlib")
        return webpage(self.name, self.lead, self.chapters(drawn=drawn), warning=self.warning)

    def write(self, path: str | Path) -> None:
        """Write the page, or for a path that ends in .md the Markdown."""
        text = self.markdown() if Path(path).suffix == ".md" else self.html()
        try:
            Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files need not be UTF-8
        except OSError as error:
            raise SmoothcertError(f"cannot write {path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        return f"Report({self.name!r}, {len(self.judged)} images, {self.question})"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        figures = html_table(("figure", ""), self.rows)
        curve = html_table(("radius", self.accuracy_name), ((radius_text(r), a) for r, a in self.curve))
        tables = f"<div style='display:flex;gap:2em;align-items:flex-start'>{figures}{curve}</div>"
        return f"<p><b>{escape(self.name)}</b><br>{escape(self.question)}</p>{tables}<p>{escape(self.about)}</p>"

    def to_pandas(self) -> pd.DataFrame:
        """A table with a row for each image; needs pandas."""
        with needed_by("Report.to_pandas"):
            import pandas as pd
        return pd.DataFrame([*self._rows()], columns=["image", "label", *FIELDS])

    def plot(self, path: str | Path | None = None) -> Figure:
        """Curve, p_A and samples per image as a matplotlib figure, also written to `path` where one is given."""
        from smoothcert.plot import report_figure, save

        figure = report_figure(self)
        if path is not None:
            save(figure, Path(path))
        return figure

    def curve_csv(self) -> str:
        columns = ("radius", "certified_accuracy", "low", "high")
        return csv_text(columns, ((radius, found.value, found.low, found.high) for radius, found in self.curve))

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
    if floor_radius(end) <= 0:
        return [0.0]
    size = 10 ** math.floor(math.log10(end / POINTS))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if end / (size * factor) <= POINTS)
    step = max(1, math.ceil(step)) if whole else step
    found = [round(i * step, 9) for i in range(math.floor(end / step) + 1)]
    return found if math.isclose(found[-1], end) else [*found, floor_radius(end)]
