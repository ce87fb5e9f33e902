"""The parameters of the model: c, Sigma_c, Sigma_p, zeta_c and zeta_p of every image, and their medians."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.model import LogitModel, fitted_ratio, median_ratio
from smoothcert.engine.study.moments import TOP
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import sizes
from smoothcert.figures import counted
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXTRAPOLATED = (10, 50)
"""Sizes beyond our members at which the model is evaluated: those of the paper."""


def chapter(samples: Samples) -> Chapter:
    rows, matrices = [], []
    for place, moments in samples.modelled:
        model = LogitModel.of(moments)
        rival = moments.runner_up
        d = np.eye(len(model.c))[moments.majority] - np.eye(len(model.c))[rival]
        noise, training = (float(np.sqrt(max(0.0, d @ sigma @ d))) for sigma in (model.sigma_p, model.sigma_c))
        rows.append(
            (
                int(samples.indices[place]),
                int(samples.labels[place]),
                int(moments.classes[moments.majority]),
                int(moments.classes[rival]),
                round(float(d @ model.c), 4),
                round(float(d @ moments.mean.mean(0)), 4),
                round(noise, 4),
                round(training, 4),
                round(median_ratio(moments.between, moments.within), 4),
                round(fitted_ratio(moments.between, moments.within), 4),
                model.rank_c,
            )
        )
        matrices.append(_matrices(int(samples.indices[place]), moments.classes.tolist(), model))
    k, table = samples.members, np.array(rows, float)
    bootstrap = samples.modelled_bootstrap
    zeta_p, fitted = bootstrap.median(table[:, 8]), bootstrap.median(table[:, 9])
    noise_part, training_part = table[:, 6] ** 2, table[:, 7] ** 2
    with np.errstate(invalid="ignore"):  # a margin without any variance
        share = bootstrap.median(training_part / (noise_part + training_part))
    medians = [
        ("zeta_p, median ratio (the paper's estimate)", zeta_p, paper.ZETA_P),
        ("zeta_p, least squares", fitted, ""),
        ("zeta_c, ratio about the members' own mean", -1 / (k - 1), paper.ZETA_C),
        ("share of Sigma_c in the variance of the margin to the runner-up", share, ""),
    ]
    names = ("label", "A", "runner-up", "c_A - c_i", "the same, mean", "sigma_p", "sigma_c", "zeta_p", "zeta_p, fitted")
    return Chapter(
        "theory",
        "The parameters of the model",
        [
            f"The logits of {k} members are modelled as y = y_c + y_p for each image, with y_c = f(x). The medians are "
            f"over {len(rows)} images; sigma_p and sigma_c are the standard deviations of the margin to the runner-up "
            f"over the noise and over the members. The second margin is that of y_c = the mean under noise, the "
            f"paper's other definition, which the pictures of the model use. The full c, Sigma_c and Sigma_p are in "
            f"`parameters.json`.",
            f"zeta_c cannot be measured with one ensemble: about their own mean, k members have the ratio -1/(k - 1) = "
            f"{-1 / (k - 1):.3f} whatever zeta_c is, because a part of the training's effect that they share cannot be "
            f"told from another c. The model takes zeta_c = 0.",
            *_limits(samples),
        ],
        [
            ChapterTable(
                "theory-medians",
                "Medians over the images.",
                ("parameter", "ours", "the paper, ResNet20, sigma = .25"),
                medians,
            ),
            ChapterTable("theory", "The parameters of each image.", ("image", *names, "rank of Sigma_c"), rows),
        ],
        [
            ChapterPicture(
                "margin",
                f"The margin to the runner-up of image {samples.indices[samples.example]}: the model's Gaussian for "
                f"ensembles of different sizes, and what the samples show (histograms).",
                _margin_figure(samples),
            )
        ],
        [("zeta_p", zeta_p), ("zeta_p, fitted", fitted), ("share of Sigma_c", share)],
        [("parameters.json", json.dumps(matrices))],
    )


def _matrices(image: int, classes: list[int], model: LogitModel) -> dict[str, object]:
    return {
        "image": image,
        "classes": classes,
        "c": np.round(model.c, 6).tolist(),
        "sigma_c": np.round(model.sigma_c, 6).tolist(),
        "sigma_p": np.round(model.sigma_p, 6).tolist(),
        "zeta_c": model.zeta_c,
        "zeta_p": round(model.zeta_p, 6),
    }


def _limits(samples: Samples) -> list[str]:
    """Sentences about what the theory leaves out here."""
    found = []
    m = min(samples.classes, TOP)
    if samples.members <= m:
        found.append(
            f"Sigma_c is singular: {samples.members} members give it a rank of at most {samples.members - 1}, and it "
            f"has {m} rows. Sums with Sigma_p, which is what the probabilities need, are not singular."
        )
    if any(moments.samples <= m for _, moments in samples.modelled):
        found.append(f"Sigma_p is singular for some images: they have no more than {m} samples with finite logits.")
    if samples.classes > TOP:
        found.append(
            f"Of {samples.classes} classes, the {TOP} with the largest mean logits of each image are modelled."
        )
    ratios = [median_ratio(moments.between, moments.within) for _, moments in samples.modelled]
    if outside := sum(not 0 <= ratio <= 1 for ratio in ratios):
        found.append(f"zeta_p of {counted(outside, 'image')} is not in [0, 1]; the model takes the nearest value.")
    if missing := len(samples) - len(samples.modelled):
        found.append(f"The theory leaves out {counted(missing, 'image')} whose logits are not finite.")
    if samples.noise.norm == "l0":
        found.append(
            "The noise replaces values instead of adding to them, so y_p has no reason to have the mean zero that the "
            "paper derives by linearisation. What is said of covariances, and of y_c = the mean under noise, applies."
        )
    elif samples.noise.norm != "l2":
        found.append(
            f"The theory does not depend on the norm: the noise ({samples.noise.label}) has mean zero, and radii "
            f"follow from p_A by the rule of this noise."
        )
    return found


def _margin_figure(samples: Samples) -> Figure:
    place = samples.example
    moments = samples.moments[place]
    figure, ((axes,),) = blank(1, 1, width=7, height=4.5)
    if moments is None:
        return figure
    model, tape = LogitModel.of(moments, clean=False), samples.recording(place)
    a, b = (int(moments.classes[i]) for i in (moments.majority, moments.runner_up))
    logits = tape.noisy[np.isfinite(tape.noisy).all(axis=(1, 2))]
    margins = logits[:, :, a] - logits[:, :, b]
    low, high = np.quantile(margins, (0.001, 0.999)).tolist()
    axis, bins = np.linspace(low, high, 300), np.linspace(low, high, 50)
    position = [i for i in range(len(model.c)) if i != moments.majority].index(moments.runner_up)
    for k, colour in zip([*sizes(samples.members)[::2], *EXTRAPOLATED], COLOURS, strict=False):
        mean, variance = model.mean[position], model.covariance(k)[position, position]
        density = np.exp(-((axis - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        style = "--" if k > samples.members else "-"
        axes.plot(axis, density, style, color=colour, label=f"model, k = {k}")
    axes.hist(margins.ravel(), bins, density=True, histtype="step", color="#9ca3af", label="samples, each member alone")
    axes.hist(margins.mean(1), bins, density=True, alpha=0.2, color=COLOURS[3], label=f"samples, k = {samples.members}")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlabel="margin y_A - y_i to the runner-up", ylabel="density")
    tidy(axes)
    return figure
