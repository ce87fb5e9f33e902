"""A study: record the samples of an ensemble, compute every analysis of the paper, and write one report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert.chapter import Chapter
from smoothcert.engine.bar import counting
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.study import (
    adaptive,
    adaptive_consensus,
    aggregation,
    assumptions,
    consensus,
    curve,
    error_bars,
    inferences,
    levels,
    radii,
    size,
    success,
    theory,
    trained,
    variance,
)
from smoothcert.engine.study.logits import MOST_BYTES, LogitTapes
from smoothcert.engine.study.samples import About, Samples, require_studied
from smoothcert.errors import DomainError, LedgerError, require_level
from smoothcert.noise import Noise
from smoothcert.plot import blank, save

SAMPLES = 10_000
"""The samples of each image by default."""
CHAPTERS: tuple[Callable[[Samples], Chapter], ...] = tuple(
    module.chapter
    for module in (
        theory,
        variance,
        success,
        radii,
        assumptions,
        size,
        error_bars,
        aggregation,
        consensus,
        inferences,
        trained,
        adaptive,
        adaptive_consensus,
        curve,
        levels,
    )
)
"""The analyses in the order of the report. A further one is a file with a function `chapter` and its entry here."""
THEORY = (theory.chapter, variance.chapter, success.chapter, radii.chapter, assumptions.chapter)
"""The analyses of the model, which need finite logits."""


@dataclass(frozen=True, repr=False)
class Study:
    """The chapters of a study; `write` makes its report."""

    title: str
    about: str
    chapters: Sequence[Chapter]
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Chapter:
        for chapter in self.chapters:
            if chapter.name == name:
                return chapter
        raise KeyError(f"{name!r} is not one of {', '.join(chapter.name for chapter in self.chapters)}")

    def __repr__(self) -> str:
        return f"Study({self.title!r}, {', '.join(chapter.name for chapter in self.chapters)})"

    def markdown(self) -> str:
        return "\n".join([f"# {self.title}", "", self.about, "", *(each.markdown() for each in self.chapters)])

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def as_json(self) -> dict[str, Any]:
        return {"title": self.title, **self.facts, "chapters": [chapter.as_json() for chapter in self.chapters]}

    def write(self, folder: Path) -> Path:
        """Write report.md, study.json, a CSV file for each table and a PNG file for each picture."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for chapter in self.chapters:
                for table in chapter.tables:
                    (folder / f"{table.name}.csv").write_text(table.csv())
                for name, text in chapter.attachments:
                    (folder / name).write_text(text)
                for picture in chapter.pictures:
                    save(picture.figure, folder / f"{picture.name}.png")
            (folder / "study.json").write_text(json.dumps(self.as_json(), indent=1) + "\n")
            (folder / "report.md").write_text(self.markdown().rstrip() + "\n")
        except OSError as error:
            raise LedgerError(f"cannot write the report into {folder}: {error}") from error
        return folder / "report.md"


def study(
    ensemble: Ensemble,
    images: Sequence[Tensor],
    labels: Sequence[int],
    folder: Path,
    *,
    noise: Noise,
    about: About,
    indices: Sequence[int] | None = None,
    samples: int = SAMPLES,
    alpha: float = 0.001,
    beta: float = 0.001,
    batch: int = 256,
    most_bytes: int = MOST_BYTES,
    progress: bool | None = None,
) -> Study:
    """Record `samples` samples of each image in folder/tapes, unless they are there, and analyse them.

    A study that is interrupted goes on when it is called again. The images are named by `indices`, their places in
    their data set, so that another choice of images shares the tapes.
    """
    require_studied(members=len(ensemble.members), samples=samples)
    require_ready(labels, len(images), alpha, beta)
    places = list(range(len(images))) if indices is None else list(indices)
    tapes = LogitTapes(folder / "tapes", ensemble, noise, samples, batch, most_bytes)
    with counting(len(images), progress) as finished:
        for recorded in tapes.record(images, places):
            finished(recorded)
    weights = ensemble.weights
    seen = Samples.of(
        about,
        noise,
        labels,
        places,
        lambda place: tapes.read(images[place], places[place]),
        weights=None if weights is None else [weights[member.digest] for member in ensemble.members],
        alpha=alpha,
        beta=beta,
    )
    return analyse(seen, {"seed": tapes.seed, "digest": ensemble.digest})


def analyse(samples: Samples, facts: dict[str, Any] | None = None) -> Study:
    """Compute all chapters from recorded samples."""
    chosen = [make for make in CHAPTERS if samples.modelled or make not in THEORY]
    about, k = samples.about, samples.members
    sentence = (
        f"{len(samples)} images of {about.images}, {samples.cuts[-1]:,} samples each, {k} members, noise "
        f"{samples.noise.label}, alpha {samples.alpha:g}, beta {samples.beta:g}. Intervals are 95 %: of Clopper and "
        f"Pearson for shares of images, and by the bootstrap over images for everything else. p_A at 10, 50 and 90 % "
        f"are quantiles over the images."
    )
    if about.command:
        sentence = f"Made by `{about.command}`. {sentence}"
    if not samples.modelled:
        sentence += " The chapters on the theory are left out: no image has finite logits from all members."
    known: dict[str, Any] = {
        "ensemble": about.ensemble,
        "command": about.command,
        "members": k,
        "images": len(samples),
        "data": about.images,
        "samples": samples.cuts[-1],
        "noise": samples.noise.parameters(),
        "alpha": samples.alpha,
        "beta": samples.beta,
        **(facts or {}),
    }
    return Study(f"Study of {about.ensemble}", sentence, [make(samples) for make in chosen], known)


def require_ready(labels: Sequence[int], images: int, alpha: float, beta: float) -> None:
    """Refuse, before anything is recorded, a study that would fail after hours."""
    if not images:
        raise DomainError("there are no images to study")
    if len(labels) != images:
        raise DomainError(f"there are {len(labels)} labels for {images} images; a study takes one for each")
    require_level("alpha", alpha)
    require_level("beta", beta)
    blank(1, 1)  # MissingExtraError where matplotlib is not installed
