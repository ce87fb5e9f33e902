"""Ensemble size: ACR and certified accuracy of the k best members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import best, sizes, subsets
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def chapter(samples: Samples) -> Chapter:
    rows: list[tuple[object, ...]] = []
    theirs = paper.beside(paper.SIZES, samples.about.method, samples.noise)
    for k in sizes(samples.members):
        rows.append((f"k = {k}", *samples.quality(samples.proofs(best(k)))))
        if theirs and k in theirs[1]:
            rows.append((f"the paper, {theirs[0]}, k = {k}", *paper_cells(theirs[1][k], samples)))
    alone = [samples.proofs(voter) for voter in subsets(samples.members, 1)]
    for place, proofs in enumerate(alone):
        rows.append((f"member {place + 1} alone", *samples.quality(proofs)))
    everyone = samples.proofs(best(samples.members))
    strongest = max(alone, key=lambda proofs: float(proofs.radii.mean()))
    over_first = samples.bootstrap.ratio(everyone.radii, alone[0].radii)
    over_best = samples.bootstrap.ratio(everyone.radii, strongest.radii)
    sentences = [
        f"Certify with n = {samples.n:,} and alpha = {samples.alpha:g} on the recorded samples; no radius above "
        f"{samples.largest_radius:.3f} can be proved with so many. Members are in ranked order, so k = 1 is the first. "
        f"The ACR of {samples.members} members is {over_first} times that of the first one and {over_best} times that "
        f"of the best one of them on these images.",
    ]
    if theirs and {1, samples.members} <= set(theirs[1]):
        gain = theirs[1][samples.members].acr / theirs[1][1].acr
        sentences.append(f"The paper has {gain:.3f} for its first one, with n = 100,000 and 500 images.")
    return Chapter(
        "size",
        "Ensemble size",
        sentences,
        [
            ChapterTable(
                "size", "ACR and certified accuracy in percent, by k.", ("members", *samples.quality_columns), rows
            )
        ],
        [ChapterPicture("size", "ACR over k, certified accuracy over k and over the radius.", _figure(samples))],
        [
            ("ACR of the first member", samples.acr(alone[0])),
            ("ACR of all members", samples.acr(everyone)),
            ("ACR of all members / of the first", over_first),
            ("ACR of all members / of the best", over_best),
        ],
    )


def paper_cells(row: paper.PaperRow, samples: Samples) -> list[object]:
    """The cells of `quality_columns` for a row of the paper."""
    return [row.acr, *(row.accuracies.get(radius, "") for radius in samples.radii), "", "", ""]


def _figure(samples: Samples) -> Figure:
    figure, ((acr, accuracy, curve),) = blank(1, 3, width=4.6)
    ks = sizes(samples.members)
    found = [samples.acr(samples.proofs(best(k))) for k in ks]
    acr.fill_between(ks, [e.low for e in found], [e.high for e in found], alpha=0.15, color=COLOURS[3])
    acr.plot(ks, [e.value for e in found], "o-", color=COLOURS[3], label="the k best (95 % over images)")
    alone = [float(samples.proofs(voter).radii.mean()) for voter in subsets(samples.members, 1)]
    acr.plot([1] * len(alone), alone, "x", color=COLOURS[0], label="each member alone")
    theirs = paper.beside(paper.SIZES, samples.about.method, samples.noise)
    if theirs:
        shown = {k: row.acr for k, row in theirs[1].items() if k <= max(ks)}
        acr.plot(list(shown), list(shown.values()), "s--", color=COLOURS[1], label=f"the paper, {theirs[0]}")
    acr.set(xlabel="members k", ylabel="ACR", xticks=ks)
    for radius, colour in zip(samples.radii[:4], COLOURS[1:], strict=False):
        values = [100 * samples.proofs(best(k)).certified(radius).mean() for k in ks]
        accuracy.plot(ks, values, "o-", color=colour, label=samples.radius_name(radius))
    accuracy.set(xlabel="members k", ylabel="certified accuracy, %", xticks=ks, ylim=(0, 100))
    axis = np.linspace(0, samples.largest_radius, 200)
    for k, colour in zip(ks, COLOURS, strict=False):
        proofs = samples.proofs(best(k))
        curve.plot(axis, [100 * proofs.certified(r).mean() for r in axis], color=colour, label=f"k = {k}")
    curve.set(xlabel="radius", ylabel="certified accuracy, %", ylim=(0, 100))
    tidy((acr, accuracy, curve))
    return figure
