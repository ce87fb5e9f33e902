"""Error bars: how much the figures vary between ensembles of the same size, over subsets of the members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import sizes, subsets
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def chapter(samples: Samples) -> Chapter:
    rows: list[tuple[object, ...]] = []
    theirs = paper.beside(paper.ERROR_BARS, samples.about.method, samples.noise)
    radii = [radius for radius in samples.radii if radius > 0][:3]
    spreads, proved = {}, {}
    for k in sizes(samples.members):
        chosen = [samples.proofs(voter) for voter in subsets(samples.members, k)]
        acr = np.array([proofs.radii.mean() for proofs in chosen])
        accuracies = [np.array([100 * proofs.certified(r).mean() for proofs in chosen]) for r in radii]
        p_a = [float(np.mean([np.quantile(proofs.p_a, q) for proofs in chosen])) for q in (0.1, 0.5, 0.9)]
        if len(chosen) > 1:
            proved[k] = np.stack([proofs.radii for proofs in chosen], axis=1)
            spreads[k] = samples.bootstrap.deviation(proved[k])
        cells = (*map(_bar, (acr, *accuracies)), spreads.get(k, ""))
        rows.append((k, len(chosen), *cells, *(round(p, 4) for p in p_a)))
        if theirs and k in theirs[1]:
            bars = [f"{mean:g} ± {deviation:g}" for mean, deviation in theirs[1][k]][: 1 + len(radii)]
            rows.append((k, f"the paper, {theirs[0]}", *bars, theirs[1][k][0][1], "", "", ""))
    largest = max(spreads)
    ratio = samples.bootstrap.deviation_ratio(proved[largest], proved[1])
    return Chapter(
        "error-bars",
        "Variability of the results",
        [
            "Mean ± standard deviation over subsets of the members, all on the same images and the same noise: this is "
            "the spread between trainings, without that of the images. Subsets of more than one member overlap, which "
            "makes their spread smaller than that of independent ensembles. The deviation of the ACR has an interval "
            "over the images, to which their own scatter adds.",
        ],
        [
            ChapterTable(
                "error-bars",
                "Mean ± standard deviation over subsets of k members; p_A is the mean of the quantiles.",
                (
                    *("k", "subsets", "ACR", *map(samples.radius_name, radii), "deviation of the ACR"),
                    *("p_A at 10 %", "p_A at 50 %", "p_A at 90 %"),
                ),
                rows,
            )
        ],
        [
            ChapterPicture(
                "error-bars",
                "Mean and ± 3 sigma band of the certified accuracy over the radius, over subsets of the members.",
                _figure(samples, [1, largest]),
            )
        ],
        [
            ("standard deviation of the ACR, k = 1", spreads[1]),
            (f"standard deviation of the ACR, k = {largest}", spreads[largest]),
            (f"standard deviation of the ACR, k = {largest} / k = 1", ratio),
        ],
    )


def _bar(values: Floats) -> str:
    digits = 4 if values.max() < 10 else 2
    spread = f"{values.std(ddof=1):.{digits}f}" if len(values) > 1 else "?"
    return f"{values.mean():.{digits}f} ± {spread}"


def _figure(samples: Samples, ks: list[int]) -> Figure:
    figure, ((axes,),) = blank(1, 1, width=6, height=4.5)
    axis = np.linspace(0, samples.largest_radius, 200)
    for k, colour in zip(dict.fromkeys(ks), COLOURS[1::2], strict=False):
        chosen = [samples.proofs(voter) for voter in subsets(samples.members, k)]
        curves = np.array([[100 * proofs.certified(r).mean() for r in axis] for proofs in chosen])
        mean, band = curves.mean(0), 3 * curves.std(0, ddof=1)
        axes.fill_between(axis, mean - band, mean + band, alpha=0.2, color=colour)
        axes.plot(axis, mean, color=colour, label=f"k = {k}, {len(chosen)} subsets")
    axes.set(xlabel="radius", ylabel="certified accuracy, %", ylim=(0, 100))
    tidy(axes)
    return figure
