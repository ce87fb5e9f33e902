"""Pictures; they need matplotlib, which the extra `plot` installs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.errors import SmoothcertError
from smoothcert.evaluation import Judged, certified_accuracy
from smoothcert.plan import Plan, information_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report import Report

COLOURS = ("#6b7280", "#d97706", "#b45309", "#2563eb", "#059669", "#7c3aed")


def pyplot() -> Any:
    """matplotlib without a screen, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError as error:
        raise SmoothcertError("pictures need matplotlib: pip install 'smoothcert[plot]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def plot_plans(plans: Mapping[str, Plan], path: Path, *, alpha: float, beta: float) -> None:
    """Expected samples against p_A for each plan, beside the limit that no test of the strict kind undercuts."""
    testable = {name: each for name, each in plans.items() if each.boundaries is not None}
    any_plan = next(iter(testable.values()))
    p0, radius, p_as = any_plan.p0, any_plan.radius, p_a_axis(any_plan.p0)
    figure, axes = pyplot().subplots(figsize=(8, 5), layout="constrained")
    for (label, each), colour in zip(testable.items(), COLOURS, strict=False):
        axes.plot(p_as, [each.expected(p).samples for p in p_as], label=label, color=colour, linewidth=1.8)
    top = axes.get_ylim()[1]
    for each in testable.values():
        if each.procedure.label == "sequential, strict":
            limit = [
                each.procedure.n0 + information_limit(p, p0, each.expected(p), alpha=alpha, beta=beta) for p in p_as
            ]
            axes.plot(p_as, limit, "k:", label="limit for any strict test", linewidth=1.2)
    axes.axvline(p0, color="#9ca3af", linewidth=0.8)
    axes.set(xlabel="p_A, the probability of the chosen class under noise", ylabel="expected samples", yscale="log")
    axes.set(ylim=(80, 3 * top), title=f"Samples to decide radius {radius:g} (p0 = {p0:.6g}), selection included")
    finish(figure, axes, path)


def plot_report(report: Report, path: Path) -> None:
    """Certified accuracy over radius, and how many images took how many samples."""
    figure, (accuracy, samples) = pyplot().subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    draw_accuracy(accuracy, report.judged, report.largest_radius, color=COLOURS[3], label=report.name)
    draw_samples(samples, report.judged, color=COLOURS[3], label=report.name)
    finish(figure, (accuracy, samples), path)


def draw_accuracy(axes: Axes, judged: Sequence[Judged], largest_radius: float, **line: Any) -> None:
    """A curve of certified accuracy over radius."""
    radii = [largest_radius * i / 200 for i in range(201)]
    axes.plot(radii, [certified_accuracy(judged, radius) for radius in radii], **line)
    axes.set(xlabel="radius", ylabel="certified accuracy, %", ylim=(0, 100))


def draw_samples(axes: Axes, judged: Sequence[Judged], **line: Any) -> None:
    """A curve of the samples that so many of the images took at least."""
    drawn = sorted((each.certificate.samples for each in judged), reverse=True)
    axes.plot([100 * (i + 1) / len(drawn) for i in range(len(drawn))], drawn, **line)
    axes.set(xlabel="share of images, %", ylabel="samples at least", yscale="log")


def p_a_axis(p0: float) -> list[float]:
    """p_A from one half (or well below p0) to one, dense around p0 where the price is."""
    around = p0 + (1 - p0) * np.linspace(-1, 0.98, 100)
    near = p0 + (1 - p0) * np.linspace(-0.1, 0.1, 41)
    wide = np.linspace(min(0.5, 2 * p0 - 1), 1.0, 40)[:-1]
    return sorted({round(float(p), 12) for p in [*around, *near, *wide] if 0 < p < 1 and p != p0})


def finish(figure: Figure, axes: Axes | Iterable[Axes], path: Path) -> None:
    """Legend, grid, file."""
    for each in [axes] if not isinstance(axes, Iterable) else axes:
        each.grid(True, which="both", linewidth=0.3, alpha=0.6)
        each.spines[["top", "right"]].set_visible(False)
        each.legend(frameon=False, fontsize="small")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise SmoothcertError(f"cannot write the picture {path}: {error}") from error
    finally:
        pyplot().close(figure)
