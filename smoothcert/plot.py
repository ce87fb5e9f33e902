"""Pictures. They need matplotlib, which the extra `plot` installs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.errors import SmoothcertError
from smoothcert.evaluation import Judged, population_accuracy, share_on_class
from smoothcert.extras import needed_by
from smoothcert.norms import measure
from smoothcert.plan import Plan, information_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smoothcert.report import Report

WHOLE = {"drawstyle": "steps-pre", "marker": "."}
"""How a curve over whole radii is drawn: between two of them it has the value at the larger one."""
COLOURS = ("#6b7280", "#d97706", "#b45309", "#2563eb", "#059669", "#7c3aed", "#db2777")
BINS = 20
"""The bars of the distribution of p_A."""


def pyplot() -> Any:
    """matplotlib.pyplot without a screen; MissingExtraError where matplotlib is not installed."""
    with needed_by("a picture"):
        import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


@cache
def _figure_class() -> type[Figure]:
    with needed_by("a picture"):
        from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure outside pyplot: it leaves the backend alone, needs no closing, and a notebook shows it as a PNG."""

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=100)
            return file.getvalue()

    return NotebookFigure


def blank(rows: int, columns: int, *, width: float = 5.0, height: float = 4.0) -> tuple[Figure, Any]:
    """An empty figure and its axes [rows, columns], each of this size in inches."""
    figure = _figure_class()(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plot_plans(plans: Mapping[str, Plan], path: Path, *, alpha: float, beta: float) -> None:
    """Draw the expected samples of each plan against p_A, and the limit that no strict test undercuts."""
    testable = {name: each for name, each in plans.items() if each.boundaries is not None}
    any_plan = next(iter(testable.values()))
    p0, radius, p_as = any_plan.p0, any_plan.radius, p_a_axis(any_plan.p0)
    figure = _figure_class()(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
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
    axes.set(ylim=(25, 3 * top), title=f"Samples to decide radius {radius:g} (p0 = {p0:.6g}), selection included")
    tidy(axes)
    save(figure, path)


def plot_report(report: Report, path: Path) -> None:
    """Write the picture of `report_figure` to a file."""
    save(report_figure(report), path)


def report_figure(report: Report) -> Figure:
    """The distribution of p_A, that of the samples per image and, before them, certified accuracy over the radius.

    Where one radius was asked for there is no such curve: it would be a rectangle.
    """
    count = 2 + report.curved
    figure = _figure_class()(figsize=(14 / 3 * count, 4.5), layout="constrained")
    *curve, p_a, samples = figure.subplots(1, count)
    for axes in curve:
        draw_accuracy(axes, report.judged, report.largest_radius, color=COLOURS[3], label=report.name)
    draw_p_a(p_a, report.judged)
    draw_samples(samples, report.judged, color=COLOURS[3], label=report.name)
    tidy((*curve, p_a, samples))
    return figure


def draw_accuracy(axes: Axes, judged: Sequence[Judged], largest_radius: float, **line: Any) -> None:
    """Draw certified accuracy over the radius, with its exact 95 % interval for the population."""
    whole = bool(judged) and judged[0].certificate.noise.whole
    count = round(largest_radius) if whole else 200
    radii = [largest_radius * i / count for i in range(count + 1)] if count else [0.0]
    found = [population_accuracy(judged, radius) for radius in radii]
    band: dict[str, Any] = {"alpha": 0.15, "linewidth": 0, "step": "pre" if whole else None}
    low, high = [each.low for each in found], [each.high for each in found]
    axes.fill_between(radii, low, high, color=line.get("color"), **band)
    axes.plot(radii, [each.value for each in found], **(WHOLE if whole else {}) | line)
    labelled = any(each.label is not None for each in judged)
    accuracy = "certified accuracy, %" if labelled else "certified, %"
    axes.set(xlabel=_radius_label(judged), ylabel=accuracy, ylim=(0, 100))
    if whole:
        axes.locator_params(axis="x", integer=True)


def draw_p_a(axes: Axes, judged: Sequence[Judged]) -> None:
    """Draw how many images have which share of their samples on the chosen class: one bar on another."""
    groups = {
        "right and certified": [each for each in judged if each.right],
        "certified for another class": [
            each for each in judged if not each.right and each.certificate.decision == "certified"
        ],
        "abstained": [each for each in judged if each.certificate.decision == "abstain"],
    }
    shown = {name: [p for p in map(share_on_class, each) if p is not None] for name, each in groups.items()}
    shown = {name: values for name, values in shown.items() if values}
    axes.hist(
        [*shown.values()],
        bins=[i / BINS for i in range(BINS + 1)],
        stacked=True,
        label=[*shown],
        color=[COLOURS[(3, 1, 0)[[*groups].index(name)]] for name in shown],
    )
    axes.set(xlabel="p_A: share of the samples on the chosen class", ylabel="images", xlim=(0, 1))


def _radius_label(judged: Sequence[Judged]) -> str:
    return f"radius: {measure(judged[0].certificate.noise)}" if judged else "radius"


def draw_samples(axes: Axes, judged: Sequence[Judged], **line: Any) -> None:
    """Draw the samples per image in descending order, over the share of images."""
    drawn = sorted((each.certificate.samples for each in judged), reverse=True)
    axes.plot([100 * (i + 1) / len(drawn) for i in range(len(drawn))], drawn, **line)
    axes.set(xlabel="share of images, %", ylabel="samples at least", yscale="log")


def p_a_axis(p0: float) -> list[float]:
    """Values of p_A from one half, or well below p0, to one; dense around p0, where most samples are needed."""
    around = p0 + (1 - p0) * np.linspace(-1, 0.98, 100)
    near = p0 + (1 - p0) * np.linspace(-0.1, 0.1, 41)
    wide = np.linspace(min(0.5, 2 * p0 - 1), 1.0, 40)[:-1]
    return sorted({round(float(p), 12) for p in [*around, *near, *wide] if 0 < p < 1 and p != p0})


def finish(figure: Figure, axes: Axes | Iterable[Axes], path: Path) -> None:
    """Add legends and grids, write the file, and close the figure."""
    tidy(axes)
    try:
        save(figure, path)
    finally:
        pyplot().close(figure)  # does nothing for a figure that is not pyplot's


def tidy(axes: Axes | Iterable[Axes]) -> None:
    """Add legends and grids."""
    for each in [axes] if not isinstance(axes, Iterable) else axes:
        each.grid(True, which="both", linewidth=0.3, alpha=0.6)
        each.spines[["top", "right"]].set_visible(False)
        each.legend(frameon=False, fontsize="small")


def inline_svg(figure: Figure, name: str, caption: str) -> str:
    """The figure as an SVG element of a page, with texts that can be read and searched, in the page's own colour.

    `caption` is what a screen reader says, escaped. Names inside it begin with `name`, as a page may have several.
    """
    plt, file = pyplot(), io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)  # comments repeat the texts, and are not needed
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"(fill|stroke): #(000000|262626)\b", r"\1: currentColor", text)
    text = re.sub(r"<text(?![^>]*fill)", '<text fill="currentColor"', text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{caption}" ', 1)


def save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise SmoothcertError(f"cannot write the picture {path}: {error}") from error
