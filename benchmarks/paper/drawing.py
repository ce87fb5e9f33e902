"""The pictures of an evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.paper.setting import Evaluated
from smoothcert.evaluation import average_certified_radius, certified_accuracy
from smoothcert.plot import draw_accuracy, draw_samples, finish, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#db2777")
GREY = "#9ca3af"
DASHES = ("-", "--", ":")
MARKERS = {"adaptive": "s", "kept": "D", "strict": "o", "lost": "^", "optimal": "*"}
"""The marks of the procedures that have a target radius."""


def plot(evaluated: list[Evaluated], path: Path) -> None:
    """Draw certified accuracy over radius; ACR over k if there are several; samples per image if they differ."""
    panels: list[Callable[[Axes, list[Evaluated]], None]] = [plot_accuracy]
    if len({each.k for each in evaluated}) > 1:
        panels.append(plot_acr)
    if not all(each.fixed for each in evaluated):
        panels.append(plot_samples)
    figure, axes = pyplot().subplots(
        1, len(panels), figsize=(6 * len(panels), 4.8), layout="constrained", squeeze=False
    )
    for panel, place in zip(panels, axes[0], strict=True):
        panel(place, evaluated)
    finish(figure, axes[0], path)


def plot_accuracy(axes: Axes, evaluated: list[Evaluated]) -> None:
    """Draw a point at the target radius for a procedure that has one, and a curve for the others."""
    for each, line in lines(evaluated):
        target = each.setting.question.radius
        if target is None:
            draw_accuracy(axes, each.judged, each.setting.question.largest_radius, **line)
        else:
            line |= {"linestyle": "none", "marker": MARKERS[each.setting.name], "markersize": 7, "fillstyle": "none"}
            axes.plot([target], [certified_accuracy(each.judged, target)], **line)


def plot_acr(axes: Axes, evaluated: list[Evaluated]) -> None:
    """Draw a line for each procedure and radius, and crosses for the members alone."""
    for (name, alone), same in grouped(evaluated).items():
        points = sorted((each.k, average_certified_radius(each.judged)) for each in same)
        axes.plot(*zip(*points, strict=True), "x" if alone else "o-", label=f"{name}, each alone" if alone else name)
    axes.set(xlabel="members k", ylabel="average certified radius", xticks=sorted({each.k for each in evaluated}))


def plot_samples(axes: Axes, evaluated: list[Evaluated]) -> None:
    for each, line in lines(evaluated):
        draw_samples(axes, each.judged, **line)


def lines(evaluated: list[Evaluated]) -> Iterator[tuple[Evaluated, dict[str, Any]]]:
    """Each setting with the style of its line.

    The colour stands for the procedure, or for the members if there is only one procedure. The dashes stand for the
    radius. Members alone are thin and grey.
    """
    procedures = list(dict.fromkeys(each.setting.name for each in evaluated))
    radii = list(dict.fromkeys(each.setting.question.radius for each in evaluated))
    voters = list(dict.fromkeys(each.setting.voters for each in evaluated if not each.setting.alone))
    several = len(procedures) > 1
    lonely = itertools.chain(
        ["each member alone"], itertools.repeat("_")
    )  # matplotlib leaves labels with _ out of the legend
    for each in evaluated:
        if each.setting.alone:
            yield each, {"color": GREY, "linewidth": 0.8, "label": next(lonely)}
            continue
        place = procedures.index(each.setting.name) if several else voters.index(each.setting.voters)
        radius = each.setting.question.radius
        dashes = "-" if radius is None else DASHES[radii.index(radius) % len(DASHES)]
        yield each, {"color": COLOURS[place % len(COLOURS)], "linestyle": dashes, "label": each.setting.label}


def grouped(evaluated: list[Evaluated]) -> dict[tuple[str, bool], list[Evaluated]]:
    """Group the settings that share a line in the plot of ACR over k: one procedure and radius."""
    groups: dict[tuple[str, bool], list[Evaluated]] = {}
    for each in evaluated:
        radius = each.setting.question.radius
        name = each.setting.name if radius is None else f"{each.setting.name}, r={radius:g}"
        groups.setdefault((name, each.setting.alone), []).append(each)
    return groups
