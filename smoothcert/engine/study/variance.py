"""Variance reduction: the variance of the margin over k against (1 + zeta (k - 1)) / k."""

from __future__ import annotations

import numpy as np

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.model import median_ratio, variance_ratio
from smoothcert.engine.study.moments import Moments
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import sizes
from smoothcert.plot import COLOURS, blank, tidy


def chapter(samples: Samples) -> Chapter:
    zetas = [median_ratio(moments.between, moments.within) for _, moments in samples.modelled]
    zeta = samples.modelled_bootstrap.median(zetas).value
    observed = np.array([reduction(moments) for _, moments in samples.modelled])
    rows = []
    for k in sizes(samples.members):
        seen = samples.modelled_bootstrap.median(observed[:, k - 1])
        rows.append((k, seen, variance_ratio(zeta, k), variance_ratio(paper.ZETA_P, k)))
    # The image's own zeta judges the formula without the spread of zeta between images.
    last = observed[:, -1]
    own = np.array([variance_ratio(each, samples.members) for each in zetas])
    error = samples.modelled_bootstrap.median(np.abs(last - own) / own * 100)
    figure, ((axes,),) = blank(1, 1, width=6)
    ks, axis = [row[0] for row in rows], range(1, samples.members + 1)
    axes.plot(axis, [variance_ratio(zeta, k) for k in axis], color=COLOURS[3], label=f"formula, zeta_p = {zeta:.2f}")
    axes.plot(
        axis, [variance_ratio(paper.ZETA_P, k) for k in axis], ":", color=COLOURS[0], label="formula, the paper's"
    )
    low, high = ([getattr(row[1], end) for row in rows] for end in ("low", "high"))
    axes.fill_between(ks, low, high, alpha=0.2, color=COLOURS[1])
    axes.plot(ks, [row[1].value for row in rows], "o", color=COLOURS[1], label="samples, the k best (median, 95 %)")
    axes.set(xlabel="members k", ylabel="variance over the noise / of one member", xticks=ks, ylim=(0, 1.15))
    tidy(axes)
    return Chapter(
        "variance",
        "Variance reduction",
        [
            "The variance over the noise of the margin to the runner-up, of the mean of the k best members, divided by "
            "the mean variance of single members: the median over images, and the formula with the median zeta_p.",
        ],
        [
            ChapterTable(
                "variance",
                "Variance of the margin relative to one member.",
                ("k", "samples", "(1 + zeta_p (k - 1)) / k", "with the paper's zeta_p"),
                rows,
            )
        ],
        [ChapterPicture("variance", "Variance of the margin over the ensemble size.", figure)],
        [("variance ratio at k", rows[-1][1]), ("formula at k", rows[-1][2]), ("error of the formula, %", error)],
    )


def reduction(moments: Moments) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """sigma_p^2(k) / sigma_p^2(1) [k] of the margin to the runner-up, for the 1, ..., k best members."""
    a, i = moments.majority, moments.runner_up
    one = moments.within[a, a] + moments.within[i, i] - 2 * moments.within[a, i]
    return moments.margins[:, i] / one if one > 0 else np.full(len(moments.margins), np.nan)
