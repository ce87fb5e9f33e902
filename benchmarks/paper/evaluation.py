"""The result of an evaluation: the table of the paper, figures with goals, notes and CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.paper import published as paper
from benchmarks.paper.disagreement import Disagreement, all_disagreements, as_notes
from benchmarks.paper.setting import Evaluated
from benchmarks.result import Figure, Result
from models.data import Images
from models.description import Description
from smoothcert.engine.study.paper import PaperRow
from smoothcert.engine.study.samples import MOST_RADII
from smoothcert.evaluation import (
    average_certified_radius,
    certified_accuracy,
    consensus_rate,
    sample_reduction,
    stage_shares,
)
from smoothcert.noise import Noise, Norm
from smoothcert.procedures import Fixed

RADII: dict[Norm, dict[str, float]] = {
    "l0": {f"r={r}": r for r in range(10)},
    "linf": {f"r={r}/255" if r else "r=0": r / 255 for r in range(4)},
}
"""The radii at which the tables have certified accuracies, by the names of their columns, where the norm decides."""


def radii_of(noise: Noise) -> dict[str, float]:
    """The radii of a table: in l1 and l2 quarters, as far as the paper's samples reach under this noise and to 2.5."""
    if noise.norm in RADII:
        return RADII[noise.norm]
    reach = Fixed(n=paper.N).largest_radius(noise, alpha=paper.ALPHA)
    return {f"r={i / 4:g}": i / 4 for i in range(MOST_RADII) if i / 4 <= reach}


def report(evaluated: list[Evaluated], images: Images, description: Description, name: str) -> Result:
    """Our table beside the rows that the paper has for it, and how often two procedures disagree.

    A row of the paper stands below ours with the same k; those of a k that we have not run stand at the end.
    """
    radii = radii_of(evaluated[0].setting.question.noise)
    table = paper.table_of(description, [each.setting for each in evaluated], images.name)
    paces = [each.evaluation_seconds for each in evaluated if each.evaluation_seconds is not None]
    time, factor = ("s/image, computed", "TimeRF, computed") if paces else ("s/image", "TimeRF")
    costs = ("samples", "evaluations", time, "SampleRF", factor, "KCR", "ASC/ASA by stage")
    rows, left = [], dict(table.rows if table else {})
    for each in evaluated:
        rows.append(row(each, list(radii.values())))
        if theirs := paper.published(description, each.setting, images.name):
            rows.append(paper_row(each.k, theirs, list(radii.values()), costs))
            left.pop(each.k, None)
    rows += [paper_row(k, theirs, list(radii.values()), costs) for k, theirs in left.items()]
    disagreed = list(all_disagreements(evaluated))
    return Result(
        name=name,
        compares=f"the certificates of {evaluated[0].setting.ensemble.name} by procedure, radius and members",
        columns=("setting", "ACR", *radii, *costs),
        rows=rows,
        figures=[
            *member_figures(evaluated, len(description.members), table.goals if table else paper.GENERAL),
            *disagreement_figures(disagreed),
        ],
        notes=[
            about(images),
            *tape_notes(paces),
            *([table.note, *consensus_notes(evaluated)] if table else []),
            budget(description),
            *cap_notes(evaluated),
            *as_notes(disagreed),
        ],
    )


def consensus_notes(evaluated: Sequence[Evaluated]) -> list[str]:
    """What K-consensus means beside the paper's rows."""
    sizes = [(each.setting.ensemble.consensus or each.k, each.k) for each in evaluated]
    partial = [consensus for consensus, k in sizes if consensus < k]
    if not partial:
        return []
    return [
        f"In the paper's rows all members vote on every sample; in ours of K-consensus the first {min(partial)} do."
    ]


def row(each: Evaluated, radii: Sequence[float]) -> tuple[object, ...]:
    judged, certificates = each.judged, each.certificates
    accuracies = [round(certified_accuracy(judged, r), 1) if each.decides(r) else "" for r in radii]
    kcr = consensus_rate(judged)
    shares = " ".join(f"{s.certified:.0f}/{s.abandoned:.0f}" for s in stage_shares(judged)[:5])
    return (
        each.setting.label,
        significant(average_certified_radius(judged)),
        *accuracies,
        round(sum(c.samples for c in certificates) / len(judged), 1),
        round(sum(c.evaluations or 0 for c in certificates) / len(judged), 1),
        round(each.seconds / len(judged), 2),
        round(sample_reduction(judged), 2),
        round((100 + paper.N) * len(judged) * each.certify_seconds / each.seconds, 2),
        "" if kcr is None else round(kcr, 1),
        shares if each.setting.name in ("adaptive", "kept") else "",
    )


def paper_row(k: int, theirs: PaperRow, radii: Sequence[float], costs: Sequence[str]) -> tuple[object, ...]:
    """A row of the paper, which has no costs."""
    return (f"the paper, k = {k}", theirs.acr, *(theirs.accuracies[r] for r in radii), *[""] * len(costs))


def significant(radius: float) -> float:
    """A radius to three decimals, or to three digits where it is small, as those in l-infinity are."""
    return round(radius, 3) if radius >= 0.1 else float(f"{radius:.3g}")


def member_figures(evaluated: Sequence[Evaluated], members: int, goals: paper.Goals) -> list[Figure]:
    """How much the ensemble adds to its members, where Certify judged it and them."""
    fixed = [each for each in evaluated if each.fixed]
    alone, together = ([each for each in fixed if each.k == k] for k in (1, members))
    first = next((each for each in alone if each.setting.members in ("k1", "member1")), None)
    if members == 1 or not together:
        return []
    acr, found = average_certified_radius(together[0].judged), []
    if first and goals.first is not None:
        found.append(Figure("ACR of the first member alone", average_certified_radius(first.judged), goals.first))
    if first and goals.over_first is not None:
        over = ratio(acr, average_certified_radius(first.judged))
        found.append(Figure(f"ACR of {members} members / of the first one alone", over, goals.over_first))
    if len(alone) == members:
        over = ratio(acr, max(average_certified_radius(each.judged) for each in alone))
        found.append(Figure(f"ACR of {members} members / of the best one alone", over, goals.gain, above=goals.above))
    if len(alone) == members and goals.weakest is not None:
        radius, percent = goals.weakest
        least = min(certified_accuracy(each.judged, radius) for each in alone)
        found.append(Figure(f"certified accuracy at r={radius:g} of the weakest member alone, %", least, percent))
    return found


def ratio(acr: float, other: float) -> float:
    return acr / other if other else math.nan


def disagreement_figures(found: Sequence[Disagreement]) -> list[Figure]:
    """The sums over all pairs of procedures."""
    if not found:
        return []
    disagreed, between = sum(len(each.p_a) for each in found), sum(each.between for each in found)
    return [
        Figure("disagreements of two procedures about an image", disagreed),
        Figure("of them, where p_A is not between their boundaries", disagreed - between, at_most=0),
    ]


def about(images: Images) -> str:
    """A note that explains the columns."""
    return (
        f"{len(images)} images of {images.name}; certified accuracy in percent of all images; samples, evaluations and "
        f"seconds are means over the images; SampleRF and TimeRF are against Certify with n = {paper.N:,} and the full "
        "vote, whose time per sample was measured when the run began; KCR includes the samples of the selection; "
        "ASC/ASA: percent of images certified and abandoned in each stage, together ASR."
    )


def tape_notes(paces: Sequence[float]) -> list[str]:
    """A note on the counts and times of settings that share tapes; `paces` are seconds per evaluation."""
    if not paces:
        return []
    spread = " to ".join(dict.fromkeys(f"{1000 * pace:.3g}" for pace in (min(paces), max(paces))))
    return [
        "Settings share one pass over the samples, recorded on tapes; their counts are those of the engine, which a "
        "test checks. They see the same noise, so they differ by less than with noise of their own. No setting has a "
        f"time of its own: the times here are computed, as evaluations x {spread} ms, which is what one evaluation "
        "took in the best of three rounds of the engine with the full vote of all members when the run began; "
        "Certify's time in TimeRF likewise."
    ]


def budget(description: Description) -> str:
    """A note on the cost of the members' training, from their own records."""
    records = [member.training for member in description.members]
    if not all({"preset", "epochs", "seconds"} <= set(record) for record in records):
        return "The records of the members do not tell their training budget."
    plans = sorted({f"{record['epochs']} epochs of the preset {record['preset']}" for record in records})
    seconds = [float(record["seconds"]) for record in records]
    return (
        f"Training budget: {len(records)} members, {description.method}, {' or '.join(plans)} each, "
        f"{min(seconds):,.0f} to {max(seconds):,.0f} s each."
    )


def cap_notes(evaluated: Sequence[Evaluated]) -> list[str]:
    """A note on the largest radius that n samples can prove, ours and the paper's."""
    ours = next((each.setting.question for each in evaluated if each.fixed), None)
    if ours is None:
        return []
    theirs = replace(ours, procedure=Fixed(n=paper.N))
    places = 0 if ours.noise.whole else 3
    return [
        f"No radius above {ours.largest_radius:.{places}f} can be proved with n = {ours.procedure.most_samples:,}, "
        f"and none above {theirs.largest_radius:.{places}f} with the paper's n = {paper.N:,}."
    ]


def write_csv(evaluated: list[Evaluated], images: Images, path: Path) -> None:
    """Write a CSV file with one row for each image and setting."""
    columns = ("class_index", "radius", "samples", "evaluations", "stop_reason")
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("setting", "image", "label", *columns))
        for each in evaluated:
            for index, judged in zip(images.indices, each.judged, strict=True):
                values = (getattr(judged.certificate, column) for column in columns)
                table.writerow((each.setting.label, index, judged.label, *values))
