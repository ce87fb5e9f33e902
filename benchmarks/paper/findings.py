"""What the folder of results says about the paper: its studies and evaluations, and verdicts by their intervals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.paper.outcomes import Outcomes
from benchmarks.paper.published import TABLES, PaperTable
from models.errors import MissingEnsembleError
from models.registry import describe
from smoothcert.estimate import Estimate

CONFIRMED, REFUTED, OPEN, NOT_COMPARABLE = "confirmed", "not confirmed", "open", "not comparable"
FOLDER = "../benchmarks/results"
"""The folder of the results, as docs/paper.md links to it."""
EVALUATED = re.compile(r"^the certificates of (\S+) by procedure, radius and members$", re.MULTILINE)
"""The line in the table of an evaluation that names its ensemble."""


def above(figure: Estimate, threshold: float) -> str:
    """The verdict on the claim that a figure exceeds a threshold: its whole interval decides."""
    if figure.low > threshold:
        return CONFIRMED
    return REFUTED if figure.high < threshold else f"{OPEN}: the interval contains {threshold:g}"


def below(figure: Estimate, threshold: float) -> str:
    """The verdict on the claim that a figure is below a threshold."""
    verdict = above(figure, threshold)
    return {CONFIRMED: REFUTED, REFUTED: CONFIRMED}.get(verdict, verdict)


def within(figure: Estimate, low: float, high: float) -> str:
    """The verdict on the claim that a figure lies between two thresholds."""
    verdicts = above(figure, low), below(figure, high)
    if REFUTED in verdicts:
        return REFUTED
    return next((verdict for verdict in verdicts if verdict != CONFIRMED), CONFIRMED)


def shown(figure: Estimate) -> str:
    """A figure with its interval, where it has one."""
    ends = "" if figure.low == figure.high else f" ({number(figure.low)} to {number(figure.high)})"
    return number(figure.value) + ends


def number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def table_of(ensemble: str) -> PaperTable | None:
    """The paper's table of the sizes of such an ensemble; None if it has none, or if the ensemble is not in the zoo."""
    try:
        description = describe(ensemble)
    except MissingEnsembleError:
        return None
    return next((table for table in TABLES if table.suits(description)), None)


@dataclass(frozen=True)
class Sized:
    """An ensemble beside its members: the ACR of the first and of all, and the ratio to `beaten`, one of them."""

    images: int
    samples: int
    members: int
    first: Estimate
    all: Estimate
    beaten: str
    ratio: Estimate
    source: str
    """A link to the report or table."""


class StudyResult:
    """The figures of a `study.json`, by chapter and name."""

    def __init__(self, study: Mapping[str, Any], folder: str = "study") -> None:
        self.study = study
        self.folder = folder
        self.figures: dict[str, dict[str, Any]] = {each["name"]: each["figures"] for each in study["chapters"]}

    @property
    def k(self) -> int:
        return int(self.study["members"])

    @cached_property
    def table(self) -> PaperTable | None:
        return table_of(self.study["ensemble"])

    def figure(self, chapter: str, name: str) -> Estimate:
        """A figure; one without an interval is an interval of no length."""
        found = self.figures[chapter][name]
        ends = [found[key] for key in ("value", "low", "high")] if isinstance(found, dict) else [found] * 3
        return Estimate(*(math.nan if end is None else float(end) for end in ends))

    def value(self, chapter: str, name: str) -> float:
        return self.figure(chapter, name).value

    def text(self, chapter: str, name: str) -> str:
        return shown(self.figure(chapter, name))

    def above(self, chapter: str, name: str, threshold: float) -> str:
        return above(self.figure(chapter, name), threshold)

    def below(self, chapter: str, name: str, threshold: float) -> str:
        return below(self.figure(chapter, name), threshold)

    def link(self, chapter: str) -> str:
        """The chapter's place in the report of the study."""
        title = next((each["title"] for each in self.study["chapters"] if each["name"] == chapter), "")
        anchor = "".join(c for c in str(title).lower() if c.isalnum() or c in "- _").replace(" ", "-")
        return f"[{chapter}]({FOLDER}/{self.folder}/report.md#{anchor})"

    def sized(self) -> Sized:
        return Sized(
            int(self.study["images"]),
            int(self.study["samples"]),
            self.k,
            self.figure("size", "ACR of the first member"),
            self.figure("size", "ACR of all members"),
            "the best member",
            self.figure("size", "ACR of all members / of the best"),
            self.link("size"),
        )


@dataclass(frozen=True)
class Evaluation:
    """The table and the CSV file that `python -m benchmarks evaluate` has written about an ensemble."""

    name: str
    ensemble: str
    outcomes: Outcomes

    @cached_property
    def table(self) -> PaperTable | None:
        return table_of(self.ensemble)

    @property
    def link(self) -> str:
        return f"[{self.name}.md]({FOLDER}/{self.name}.md)"

    def sized(self) -> Sized | None:
        over, sizes = self.outcomes.over_one(), self.outcomes.sizes
        if over is None:
            return None
        first, last = sizes[1] if 1 in sizes else self.outcomes.alone[0], sizes[max(sizes)]
        acr = [self.outcomes.acr(setting) for setting in (first, last)]
        samples = round(self.outcomes.samples[last])
        return Sized(len(self.outcomes.images), samples, max(sizes), acr[0], acr[1], *over, self.link)


@dataclass(frozen=True)
class Findings:
    """All studies and evaluations of a folder of results."""

    studies: Sequence[StudyResult]
    evaluations: Sequence[Evaluation]

    @classmethod
    def read(cls, folder: Path) -> Findings:
        """Everything that is there: study*/study.json, and NAME.csv beside a NAME.md of an evaluation."""
        studies = [
            StudyResult(json.loads(path.read_text()), path.parent.name)
            for path in sorted(folder.glob("study*/study.json"))
        ]
        return cls(studies, list(_evaluations(folder)))

    def sized(self, table: PaperTable) -> Sized | None:
        """The ensemble that the paper's table is about, on the most images, and then with the most samples."""
        every: list[Evaluation | StudyResult] = [*self.evaluations, *self.studies]
        found = [each.sized() for each in every if each.table is table]
        known = [each for each in found if each is not None]
        return max(known, key=lambda each: (each.images, each.samples), default=None)

    def evaluation(self, table: PaperTable) -> Evaluation | None:
        found = [each for each in self.evaluations if each.table is table and 1 in each.outcomes.sizes]
        return max(found, key=lambda each: len(each.outcomes.images), default=None)


def _evaluations(folder: Path) -> Iterator[Evaluation]:
    for path in sorted(folder.glob("*.csv")):
        beside = path.with_suffix(".md")
        named = EVALUATED.search(beside.read_text()) if beside.is_file() else None
        if named:
            yield Evaluation(path.stem, named[1], Outcomes.read(path))
