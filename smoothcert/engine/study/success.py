"""The probability of class A over the ensemble size: the Gaussian model, Chebyshev's bound, and the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study.model import LogitModel
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.theory import EXTRAPOLATED
from smoothcert.engine.study.voters import sizes, subsets
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


def chapter(samples: Samples) -> Chapter:
    ks = sizes(samples.members)
    beyond = [*ks, *(k for k in EXTRAPOLATED if k > samples.members)]
    seen = observed(samples)
    gaussian, about_mean = (modelled(samples, beyond, clean=clean) for clean in (True, False))
    bound = chebyshev(samples, beyond)
    applies = ~np.isnan(bound[:, 0])
    mean, ratio, rows = samples.modelled_bootstrap.mean, samples.modelled_bootstrap.ratio, []
    for place, k in enumerate(beyond):
        rows.append(
            (
                k,
                mean(seen[:, place]) if k <= samples.members else "",
                mean(gaussian[:, place]),
                mean(about_mean[:, place]),
                ratio(np.where(applies, bound[:, place], 0), applies) if applies.any() else "",
            )
        )
    inside = slice(0, len(ks))
    errors = [mean(np.abs(each[:, inside] - seen).mean(1)) for each in (gaussian, about_mean)]
    violated = int((bound[:, inside] > seen + 1e-9).sum())
    figure, ((one, all_of_them),) = blank(1, 2)
    example = [place for place, _ in samples.modelled].index(samples.example)
    _draw(one, beyond, seen[example], gaussian[example], about_mean[example], bound[example])
    one.set(title=f"image {samples.indices[samples.example]}")
    curves = (seen.mean(0), gaussian.mean(0), about_mean.mean(0))
    _draw(all_of_them, beyond, *curves, np.nanmean(bound, axis=0) if applies.any() else bound[0])
    all_of_them.set(title=f"mean over {len(seen)} images")
    tidy((one, all_of_them))
    return Chapter(
        "success",
        "Success probability",
        [
            f"The probability of class A, the most frequent class of all members, for k members. The samples give the "
            f"mean over subsets of k members; the model gives the probability of an orthant, with y_c = f(x) as in the "
            f"paper and with y_c = the mean under noise. Chebyshev's bound applies where all mean margins are "
            f"positive, to {int(applies.sum())} of {len(seen)} images; its column is the mean over those. It exceeds "
            f"the samples in {violated} of {int(applies.sum()) * len(ks)} cases.",
        ],
        [
            ChapterTable(
                "success",
                "Mean probability of class A over the images.",
                ("k", "samples", "model, y_c = f(x)", "model, y_c = mean under noise", "Chebyshev"),
                rows,
            )
        ],
        [ChapterPicture("success", "Success probability over the ensemble size.", figure)],
        [
            ("p_A of one member", mean(seen[:, 0])),
            ("p_A of all members", mean(seen[:, -1])),
            ("mean error of the model, y_c = f(x)", errors[0]),
            ("mean error of the model, y_c = mean", errors[1]),
            ("cases in which Chebyshev's bound exceeds the samples", violated),
        ],
    )


def observed(samples: Samples) -> Floats:
    """The share of class A [modelled images, sizes], averaged over subsets of each size."""
    places = [place for place, _ in samples.modelled]
    by_size = [
        np.mean([samples.success(voter) for voter in subsets(samples.members, k)], axis=0)
        for k in sizes(samples.members)
    ]
    shares: Floats = np.stack(by_size, axis=1)[places]
    return shares


def modelled(samples: Samples, ks: Sequence[int], *, clean: bool) -> Floats:
    """p_1 of the Gaussian model [modelled images, ks]."""
    models = [LogitModel.of(moments, clean=clean) for _, moments in samples.modelled]
    return np.array([[model.success(k) for k in ks] for model in models])


def chebyshev(samples: Samples, ks: Sequence[int]) -> Floats:
    """Chebyshev's bound [modelled images, ks]; NaN where it does not apply."""
    models = [LogitModel.of(moments) for _, moments in samples.modelled]
    return np.array([[model.chebyshev(k) for k in ks] for model in models], dtype=float)


def _draw(axes: Axes, ks: Sequence[int], seen: Floats, gaussian: Floats, about_mean: Floats, bound: Floats) -> None:
    axes.plot(ks, gaussian, "-", color=COLOURS[3], label="Gaussian model, y_c = f(x)")
    axes.plot(ks, about_mean, "--", color=COLOURS[5], label="Gaussian model, y_c = mean")
    axes.plot(ks, bound, ":", color=COLOURS[0], label="Chebyshev's bound")
    axes.plot(ks[: len(seen)], seen, "o", color=COLOURS[1], label="samples")
    axes.set(xlabel="members k", ylabel="probability of class A", xscale="log", ylim=(0, 1.02))
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
