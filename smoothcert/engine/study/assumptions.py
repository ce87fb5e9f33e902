"""The paper's three assumptions, checked as in its appendix.

1. y = y_c + y_p, where y_p has mean zero; both are compared with Gaussians.
2. y_c and y_p are independent: Cov(y_c, y_p) is near zero.
3. Between different members, the covariances are zeta_p Sigma_p and zeta_c Sigma_c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import beta, ndtr

from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.engine.study.model import median_ratio
from smoothcert.engine.study.moments import EDGES, Moments
from smoothcert.engine.study.samples import Samples
from smoothcert.estimate import Estimate
from smoothcert.plot import COLOURS, blank, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def chapter(samples: Samples) -> Chapter:
    every = [moments for _, moments in samples.modelled]
    k = samples.members
    effects = np.array([mean_effect(moments) for moments in every])  # [images, k, m]
    size = np.sqrt((effects**2).mean((1, 2)))
    histograms = np.array([moments.histogram for moments in every])  # [images, 2, bins]
    joints = [joint_covariance(moments, clean=True) for moments in every]
    crosses = np.array([cross_size(joint) for joint in joints])
    pairs = np.array([(moments.between, moments.within) for moments in every])  # [images, 2, m, m]
    errors = np.array([between_error(*pair) for pair in pairs])
    zeta = median_ratio(*pairs.mean(0))
    median, distance = samples.modelled_bootstrap.median, samples.modelled_bootstrap.distance
    distances = [distance(histograms[:, place], distance_to_normal) for place in (0, 1)]
    pooled_cross, pooled_error = distance(joints, cross_size), distance(pairs, lambda pair: between_error(*pair))
    rows: list[tuple[str, float | Estimate]] = [
        ("1: |mean of y_p| / sigma_p, y_c = f(x)", median(size)),
        ("1: distance of y_p from a Gaussian, y_c = f(x)", distances[0]),
        ("1: distance of y_p from a Gaussian, y_c = mean under noise", distances[1]),
        ("2: Cov(y_c, y_p) relative to Sigma_c and Sigma_p, y_c = f(x)", median(crosses)),
        ("2: the same for the means over all images", pooled_cross),
        ("2: the same, y_c = mean under noise", 0.0),
        ("3: error of zeta_p Sigma_p as Cov(y^a_p, y^b_p)", median(errors)),
        (f"3: the same for the means over all images, with zeta_p = {zeta:.4f}", pooled_error),
    ]
    return Chapter(
        "assumptions",
        "The three assumptions",
        [
            "Medians over images. The distance of a distribution from a Gaussian is the total variation distance of "
            "their histograms: 0 is the same, 1 has nothing in common. Matrices are compared by their Frobenius norms. "
            "With y_c = the mean under noise, y_p has mean zero and Cov(y_c, y_p) is zero by definition. The paper "
            "shows means over images; the covariances of single images with few members are noisy.",
            f"Clean logits are standardised by the mean and standard deviation of the same {k} members, which bounds "
            f"them by (k - 1) / sqrt(k): the curve beside them is what {k} independent Gaussians give, not a Gaussian. "
            f"About their own mean, the covariance of the clean logits of two members is -Sigma_c / (k - 1) on "
            f"average, whatever zeta_c is.",
        ],
        [ChapterTable("assumptions", "How well the assumptions hold.", ("measure", "ours"), rows)],
        [
            ChapterPicture(
                "assumptions-components",
                "Clean logits, effect of the noise and mean effect of the noise, with the model's densities.",
                _components(every, effects, histograms.sum(0)),
            ),
            ChapterPicture(
                "assumptions-independence",
                "Covariance of (y_c, y_p), mean over images: the off-diagonal blocks are Cov(y_c, y_p).",
                _independence(every),
            ),
            ChapterPicture(
                "assumptions-between",
                "Covariance between different members, measured and modelled: clean logits (top), effect of the noise.",
                _between(every, zeta),
            ),
        ],
        [
            ("mean effect of the noise / sigma_p", rows[0][1]),
            ("distance of y_p from a Gaussian, y_c = f(x)", distances[0]),
            ("distance of y_p from a Gaussian, y_c = mean", distances[1]),
            ("relative size of Cov(y_c, y_p)", rows[3][1]),
            ("relative size of Cov(y_c, y_p), means", pooled_cross),
            ("relative error of zeta_p Sigma_p", rows[6][1]),
            ("relative error of zeta_p Sigma_p, means", pooled_error),
        ],
    )


def mean_effect(moments: Moments) -> Floats:
    """The mean of y_p for y_c = f(x) in units of sigma_p, [k, m]."""
    sigma = np.sqrt(np.maximum(np.diag(moments.within), np.finfo(float).tiny))
    effect: Floats = (moments.mean - moments.clean) / sigma
    return effect


def distance_to_normal(counts: Floats) -> float:
    """The total variation distance of a histogram with the edges EDGES from that of a standard Gaussian."""
    if not counts.any():
        return float("nan")
    normal = np.diff(ndtr(EDGES))
    outside = 1 - normal.sum()
    return float((np.abs(counts / counts.sum() - normal).sum() + outside) / 2)


def joint_covariance(moments: Moments, *, clean: bool) -> Floats:
    """The covariance [2m, 2m] of (y_c, y_p) over members and noise."""
    k = len(moments.clean)
    if clean:
        centre, effect, own = moments.clean, moments.mean - moments.clean, moments.within
    else:
        centre, effect, own = moments.mean, np.zeros_like(moments.mean), moments.within
    c, p = centre - centre.mean(0), effect - effect.mean(0)
    cross = c.T @ p / (k - 1)
    joint: Floats = np.block([[c.T @ c / (k - 1), cross], [cross.T, own + p.T @ p / (k - 1)]])
    return joint


def cross_size(joint: Floats) -> float:
    """The norm of the off-diagonal block, relative to the geometric mean of those of the diagonal blocks."""
    m = len(joint) // 2
    scale = np.sqrt(np.linalg.norm(joint[:m, :m]) * np.linalg.norm(joint[m:, m:]))
    return float(np.linalg.norm(joint[:m, m:]) / scale) if scale else 0.0


def between_error(between: Floats, within: Floats) -> float:
    """The relative error of zeta_p Sigma_p as the covariance between members."""
    scale = float(np.linalg.norm(between))
    return float(np.linalg.norm(between - median_ratio(between, within) * within)) / scale if scale else 0.0


def residual_density(values: Floats, k: int) -> Floats:
    """The density of (x_i - mean) / s for k >= 3 independent Gaussians, where s has the denominator k - 1.

    The square of it, times k / (k - 1)^2, has the distribution Beta(1/2, (k - 2) / 2).
    """
    u = values**2 * k / (k - 1) ** 2
    inside = u < 1
    density = np.zeros_like(values)
    density[inside] = np.sqrt(k) / (k - 1) / beta(0.5, (k - 2) / 2) * (1 - u[inside]) ** ((k - 4) / 2)
    return density


def _components(every: list[Moments], effects: Floats, histograms: npt.NDArray[np.int64]) -> Figure:
    figure, ((clean, noise, mean),) = blank(1, 3, width=4.6)
    k = effects.shape[1]
    axis = np.linspace(-4, 4, 400)
    if k >= 3:
        logits = np.array([moments.clean for moments in every])
        spread = logits.std(1, ddof=1, keepdims=True)
        steady = np.broadcast_to(spread > 0, logits.shape)
        residuals = ((logits - logits.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1))[steady]
        clean.hist(residuals, 40, density=True, alpha=0.4, color=COLOURS[1], label="samples")
        clean.plot(axis, residual_density(axis, k), color=COLOURS[3], label=f"{k} independent Gaussians")
    clean.set(xlabel="(f(x) - c) / s over the members", ylabel="density", title="clean logits", xlim=(-3, 3))
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    for counts, label, colour in zip(histograms, ("y_c = f(x)", "y_c = mean"), (COLOURS[1], COLOURS[4]), strict=True):
        noise.step(middle, counts / counts.sum() / np.diff(EDGES), where="mid", color=colour, label=f"samples, {label}")
    noise.plot(axis, np.exp(-(axis**2) / 2) / np.sqrt(2 * np.pi), color=COLOURS[3], label="Gaussian")
    noise.set(xlabel="y_p / sigma_p", title="effect of the noise")
    mean.hist(effects.ravel(), np.linspace(-5, 5, 81), density=True, alpha=0.4, color=COLOURS[1], label="y_c = f(x)")
    mean.axvline(0, color=COLOURS[4], label="y_c = mean")
    mean.set(xlabel="mean of y_p / sigma_p", title="mean effect of the noise", xlim=(-5, 5))
    tidy((*((clean,) if k >= 3 else ()), noise, mean))
    return figure


def _independence(every: list[Moments]) -> Figure:
    figure, (axes,) = blank(1, 2, width=5, height=4.4)
    for place, clean, name in ((0, False, "y_c = mean under noise"), (1, True, "y_c = f(x)")):
        matrix = np.mean([joint_covariance(moments, clean=clean) for moments in every], axis=0)
        _matrix(figure, axes[place], matrix, name)
        m = len(matrix) / 2 - 0.5
        axes[place].axhline(m, color="black", linewidth=0.6)
        axes[place].axvline(m, color="black", linewidth=0.6)
        axes[place].set(xlabel="y_c, then y_p", ylabel="y_c, then y_p")
    return figure


def _between(every: list[Moments], zeta: float) -> Figure:
    figure, axes = blank(2, 3, width=3.9, height=3.5)
    k = len(every[0].clean)
    sigma_c = np.mean([np.atleast_2d(np.cov(moments.clean.T, ddof=1)) for moments in every], axis=0)
    clean, modelled_clean = -sigma_c / (k - 1), 0 * sigma_c
    noise = np.mean([moments.between for moments in every], axis=0)
    modelled_noise = zeta * np.mean([moments.within for moments in every], axis=0)
    for row, (true, model, scale, name) in enumerate(
        ((clean, modelled_clean, sigma_c, "clean"), (noise, modelled_noise, noise, f"noise, zeta_p = {zeta:.3f}"))
    ):
        limit = float(np.abs(scale).max())
        for column, (matrix, title) in enumerate(
            ((true, "measured"), (true - model, "difference"), (model, "modelled"))
        ):
            _matrix(figure, axes[row][column], matrix, f"{name}: {title}", limit=limit)
    return figure


def _matrix(figure: Figure, axes: Axes, matrix: Floats, title: str, *, limit: float | None = None) -> None:
    end = float(np.abs(matrix).max()) if limit is None else limit
    shown: Any = axes.imshow(matrix, cmap="RdBu_r", vmin=-end or -1.0, vmax=end or 1.0)
    figure.colorbar(shown, ax=axes, shrink=0.8)
    axes.set(title=title, xticks=[], yticks=[])
