"""Equal number of inferences: one member with k n samples against k members with n."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothcert.bounds import lower_bound
from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Proofs, Samples
from smoothcert.engine.study.size import paper_cells
from smoothcert.engine.study.voters import best, subsets
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def chapter(samples: Samples) -> Chapter:
    k, few, many = samples.members, samples.short, samples.n
    alone = subsets(k, 1)
    one, longer = ([samples.proofs(voter, short=short) for voter in alone] for short in (True, False))
    together = samples.proofs(best(k), short=True)
    rows: list[tuple[object, ...]] = [
        (f"one member, n = {few:,}", *_cells(samples, one)),
        (f"one member, n = {many:,}", *_cells(samples, longer)),
        (f"{k} members, n = {few:,}", *_cells(samples, [together])),
    ]
    for name, table in paper.INFERENCES.items():
        for (size, n), row in table.items():
            rows.append((f"the paper, {name}, k = {size}, n = {n:,}", *paper_cells(row, samples)))
    ratio = samples.bootstrap.ratio
    base = np.mean([proofs.radii for proofs in one], axis=0)
    members = ratio(together.radii, base)
    more = ratio(np.mean([proofs.radii for proofs in longer], axis=0), base)
    direct = ratio(together.radii, np.mean([proofs.radii for proofs in longer], axis=0))
    reach = samples.noise.radius(lower_bound(few, few, samples.alpha))
    capped = [np.minimum(proofs.radii, reach) for proofs in longer]
    within = ratio(np.minimum(together.radii, reach), np.mean(capped, axis=0))
    return Chapter(
        "inferences",
        "Equal number of inferences",
        [
            f"One member with {many:,} samples makes as many forward passes as {k} members with {few:,}. Rows of one "
            f"member are means over all {k} of them. With {few:,} samples no radius above {reach:.3f} can be proved, "
            f"with {many:,} none above {samples.largest_radius:.3f}.",
            f"Compared with one member and {few:,} samples, {k} members multiply the ACR by {members}, and {k} times "
            f"the samples by {more}. At the same cost, the members have {direct} times the ACR of the samples, "
            f"and {within} times if no radius counts for more than {reach:.3f}.",
        ],
        [ChapterTable("inferences", "ACR and certified accuracy, %.", ("classifier", *samples.quality_columns), rows)],
        [
            ChapterPicture(
                "inferences",
                "Certified accuracy over the radius at an equal number of inferences.",
                _figure(samples, {f"one member, n = {few:,}": one, f"one member, n = {many:,}": longer,
                                  f"{k} members, n = {few:,}": [together]}),
            )
        ],
        [
            ("ACR of k members / of one", members),
            ("ACR of k n samples / of n", more),
            ("ACR of k members / of k n samples", direct),
            ("ACR of k members / of k n samples, within reach", within),
        ],
    )  # fmt: skip


def _cells(samples: Samples, several: list[Proofs]) -> tuple[object, ...]:
    """The cells of `quality_columns` for the mean over classifiers; intervals are over the images."""
    mean = samples.bootstrap.mean
    acr = mean(np.mean([proofs.radii for proofs in several], axis=0))
    accuracies = [mean(100 * np.mean([proofs.certified(r) for proofs in several], axis=0)) for r in samples.radii]
    quantiles = [round(float(q), 4) for q in np.quantile(np.concatenate([p.p_a for p in several]), (0.1, 0.5, 0.9))]
    return (acr, *accuracies, *quantiles)


def _figure(samples: Samples, curves: dict[str, list[Proofs]]) -> Figure:
    figure, ((axes,),) = blank(1, 1, width=6, height=4.5)
    axis = np.linspace(0, samples.largest_radius, 300)
    for (label, several), colour in zip(curves.items(), (COLOURS[0], COLOURS[1], COLOURS[3]), strict=True):
        values = [100 * np.mean([proofs.certified(r).mean() for proofs in several]) for r in axis]
        axes.plot(axis, values, color=colour, label=label)
    axes.set(xlabel="radius", ylabel="certified accuracy, %", ylim=(0, 100))
    tidy(axes)
    return figure
