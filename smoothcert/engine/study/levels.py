"""alpha and beta: what the first stage of CertifyAdp decides, for every p_A. This is exact and needs no samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study.adaptive import at_least
from smoothcert.engine.study.samples import Samples
from smoothcert.noise import Noise
from smoothcert.plot import COLOURS, blank, tidy
from smoothcert.procedures import Adaptive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
LEVELS = (0.1, 0.01, 0.001, 0.0001)
P_AS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)


def chapter(samples: Samples) -> Chapter:
    noise = samples.noise
    radius = first_radius(noise)
    rows = []
    for p in P_AS:
        at = np.array([p])
        certify = [round(float(first_stage(noise, radius, level, 0.001, at)[0][0]), 4) for level in LEVELS]
        abandon = [round(float(first_stage(noise, radius, 0.001, level, at)[1][0]), 4) for level in LEVELS]
        go_on = round(float(first_stage(noise, radius, 0.001, 0.001, at)[2][0]), 4)
        rows.append((p, *certify, *abandon, go_on))
    axis = np.linspace(0.4, 1.0, 601)
    _, _, going_on = first_stage(noise, radius, 0.001, 0.001, axis)
    undecided = axis[going_on > 0.5]
    band = (float(undecided.min()), float(undecided.max())) if len(undecided) else (float("nan"), float("nan"))
    return Chapter(
        "levels",
        "alpha and beta",
        [
            f"The probability that the first stage of CertifyAdp, 100 samples of {sum(Adaptive().stages):,}, certifies "
            f"radius {radius:g}, abandons it, or goes on. With alpha = beta = .001 it goes on with a probability above "
            f"one half only for p_A from {band[0]:.3f} to {band[1]:.3f}.",
        ],
        [
            ChapterTable(
                "levels",
                "Probabilities after the first stage. The level that is not named is .001.",
                ("p_A", *(f"certify, alpha = {a:g}" for a in LEVELS), *(f"abandon, beta = {b:g}" for b in LEVELS),
                 "go on"),
                rows,
            )
        ],
        [ChapterPicture("levels", "What the first stage decides, over p_A.", _figure(noise, radius, axis))],
        [("p_A from which the first stage goes on", band[0]), ("p_A up to which the first stage goes on", band[1])],
    )  # fmt: skip


def first_radius(noise: Noise) -> float:
    """The paper's r = sigma; for other noises, the radius that needs the same p_A."""
    radius = noise.radius(float(ndtr(1.0)))
    return float(max(1, round(radius))) if noise.whole else round(radius, 6)


def first_stage(noise: Noise, radius: float, alpha: float, beta: float, p: Floats) -> tuple[Floats, Floats, Floats]:
    """The probabilities that the stage certifies, abandons and goes on, for each p_A."""
    boundaries = Adaptive().boundaries(noise, radius, alpha=alpha, beta=beta)
    n, upper, low = (int(each[0]) for each in (boundaries.looks, boundaries.certify, boundaries.abandon))
    certify = at_least(upper, n, p)
    abandon = 1 - at_least(low + 1, n, p)
    return certify, abandon, 1 - certify - abandon


def _figure(noise: Noise, radius: float, axis: Floats) -> Figure:
    figure, ((certify, abandon, go_on),) = blank(1, 3, width=4.6)
    for level, colour in zip(LEVELS, COLOURS[1:], strict=False):
        certify.plot(axis, first_stage(noise, radius, level, 0.001, axis)[0], color=colour, label=f"alpha = {level:g}")
        abandon.plot(axis, first_stage(noise, radius, 0.001, level, axis)[1], color=colour, label=f"beta = {level:g}")
        go_on.plot(axis, first_stage(noise, radius, level, level, axis)[2], color=colour, label=f"both = {level:g}")
    for axes, name in ((certify, "certify"), (abandon, "abandon"), (go_on, "go on")):
        axes.set(xlabel="p_A", ylabel=f"probability to {name}", ylim=(-0.02, 1.02))
    tidy((certify, abandon, go_on))
    return figure
