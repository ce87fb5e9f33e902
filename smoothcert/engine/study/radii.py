"""The certified radius for given p_A: its distribution over k, its mean over n, and members against samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.example import Example, N, gain
from smoothcert.engine.study.model import LogitModel
from smoothcert.engine.study.radius import certified_radii, expected_radius, radius_distribution
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.success import modelled, observed
from smoothcert.engine.study.theory import EXTRAPOLATED
from smoothcert.engine.study.voters import sizes
from smoothcert.estimate import Estimate
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P_AS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
NS = (100, 1_000, 10_000, 100_000, 1_000_000)
"""The numbers of samples of the table; the curve has more between them."""


def chapter(samples: Samples) -> Chapter:
    k, noise, alpha = samples.members, samples.noise, samples.alpha

    def expected(p: float, n: int) -> float:
        return expected_radius(p, n, noise=noise, alpha=alpha)

    # 1. For the example: k members with n samples against one member with k times as many.
    ks, seen = sizes(k), observed(samples)
    rows = compared(samples)
    # 2. The same over all images.
    alone, together = (np.array([expected(p, N) for p in seen[:, place].tolist()]) for place in (0, -1))
    longer = np.array([expected(p, k * N) for p in seen[:, 0].tolist()])
    by_members, by_samples = (samples.modelled_bootstrap.ratio(each, alone) for each in (together, longer))
    direct = samples.modelled_bootstrap.ratio(together, longer)
    by_model = [np.array([expected(p, N) for p in modelled(samples, [size], clean=False)[:, 0]]) for size in (1, 50)]
    fifty = samples.modelled_bootstrap.ratio(by_model[1], by_model[0])
    table = [[p, *(expected(p, n) for n in NS)] for p in P_AS]
    index = samples.indices[samples.example]
    return Chapter(
        "radii",
        "Certified radius for a given p_A",
        [
            f"Everything here is exact, given p_A: the count is binomial, and alpha = {alpha:g}. p_A of more members "
            f"than there are is that of the Gaussian model with y_c = the mean under noise. Image {index} stands "
            f"for the paper's example. With n = {N:,}, its expected radius grows by {rows[len(ks) - 1][5]} % "
            f"if {k} members take the place of one, and by {rows[len(ks) - 1][6]} % if one member gets {k} times "
            f"the samples. The model's 50 members make it grow by {rows[-1][5]:.1f} %, 50 times the samples by "
            f"{rows[-1][6]} %; the paper's example has {paper.GAIN_OF_MEMBERS:.0f} % and "
            f"{paper.GAIN_OF_SAMPLES:.0f} %. Intervals of this image are over its samples; what the model adds to "
            f"them is not known.",
            f"Over all images, the expected radius of {k} members is {by_members} times that of one with n = {N:,}, "
            f"and that of one member with {k} times the samples {by_samples} times; members against samples {direct}.",
        ],
        [
            ChapterTable(
                "radii",
                f"Image {index}: k members with n = {N:,} against one member with k n samples.",
                ("k", "p_A from", "p_A", "radius, k members", "radius, k n samples", "gain, %", "gain by samples, %"),
                rows,
            ),
            ChapterTable("radii-n", "Expected certified radius over n.", ("p_A", *(f"n = {n:,}" for n in NS)), table),
        ],
        [
            ChapterPicture(
                "radii", f"Distribution of the certified radius of image {index} by k.", _spread(samples, rows)
            ),
            ChapterPicture("radii-n", "Expected certified radius over the number of samples.", _over_n(samples)),
        ],
        [
            ("radius of k members / of one", by_members),
            ("radius of k times the samples / of one", by_samples),
            ("radius of k members / of k times the samples", direct),
            ("gain of k members in the example, %", rows[len(ks) - 1][5]),
            ("gain of k times the samples in the example, %", rows[len(ks) - 1][6]),
            ("modelled gain of 50 members in the example, %", rows[-1][5]),
            ("gain of 50 times the samples in the example, %", rows[-1][6]),
            ("modelled radius of 50 members / of one, all images", fifty),
        ],
    )


def compared(samples: Samples) -> list[tuple[Any, ...]]:
    """The rows of the example: of the sizes that there are, from its samples, and of larger ones, from the model."""
    image, k = Example.of(samples), samples.members
    rows: list[tuple[Any, ...]] = []
    for place, size in enumerate(sizes(k)):
        members, more = image.radius(place, N), image.radius(0, size * N)
        gains = (image.gain(place, N), image.gain(0, size * N))
        rows.append((size, "samples", image.probability(place), members, more, *gains))
    model = LogitModel.of(dict(samples.modelled)[samples.example], clean=False)
    for size in (size for size in EXTRAPOLATED if size > k):
        p = model.success(size)
        radius = expected_radius(p, N, noise=samples.noise, alpha=samples.alpha)
        modelled_gain = gain(radius, rows[0][3].value)
        rows.append((size, "model", p, radius, image.radius(0, size * N), modelled_gain, image.gain(0, size * N)))
    return rows


def _spread(samples: Samples, rows: Sequence[tuple[Any, ...]]) -> Figure:
    figure, ((axes,),) = blank(1, 1, width=7, height=4.5)
    for row, colour in zip(rows[:: 2 if len(rows) > 5 else 1], COLOURS, strict=False):
        k, source, found, *_ = row
        p = found.value if isinstance(found, Estimate) else found
        radii, mass = radius_distribution(p, N, noise=samples.noise, alpha=samples.alpha)
        label = f"k = {k} ({source}), p_A = {p:.3f}"
        axes.plot(radii, mass, "o--" if samples.noise.whole else "-", color=colour, label=label)
    largest = float(certified_radii(N, N + 1, N, samples.noise, samples.alpha)[0])
    axes.axvline(largest, color="#9ca3af", linewidth=0.8, label=f"largest radius with n = {N:,}")
    axes.set(xlabel="certified radius", ylabel="probability")
    tidy(axes)
    return figure


def _over_n(samples: Samples) -> Figure:
    figure, ((axes,),) = blank(1, 1, width=6, height=4.5)
    ns = [round(10 ** (2 + i / 5)) for i in range(21)]
    for p, colour in zip(P_AS, [*COLOURS, "#111827"], strict=False):
        values = [expected_radius(p, n, noise=samples.noise, alpha=samples.alpha) for n in ns]
        axes.plot(ns, values, color=colour, label=f"p_A = {p:g}")
    axes.set(xlabel="samples n", ylabel="expected certified radius", xscale="log")
    tidy(axes)
    return figure
