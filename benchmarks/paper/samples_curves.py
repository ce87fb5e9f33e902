"""Samples per image of `optimal` with several radii, a whole curve from one run, exactly on published logs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.paper.samples_logs import (
    ALPHA,
    BETA,
    HELD_OUT,
    METHODS,
    RATIOS,
    SIGMAS,
    Population,
    add_options,
    each_of,
    geometric_mean,
)
from benchmarks.result import Figure, Result
from smoothcert.noise import Gaussian
from smoothcert.optimal import CurveOutcome
from smoothcert.plan import plan
from smoothcert.procedures import Fixed, Optimal

SEVEN = tuple(i / 2 for i in range(1, 8))
"""Seven radii in standard deviations."""
IMAGES = 10_000
"""The images of a log."""


@dataclass(frozen=True)
class Curve:
    """One run for several radii on the images of one log, against Certify."""

    setting: str
    held_out: bool
    radii: tuple[float, ...]
    samples: float
    changes: tuple[float, ...]
    """The change of certified accuracy at each radius, in points."""

    @property
    def gain(self) -> float:
        fixed = Fixed()
        return (fixed.n0 + fixed.n) / self.samples


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser)


def run(options: argparse.Namespace) -> Result:
    arguments = [
        (options.logs, method, sigma, ratios)
        for several in (None, SEVEN)
        for method in METHODS
        for sigma in SIGMAS
        for ratios in [several or RATIOS[sigma]]
    ]
    return report(each_of(curve_of_log, arguments, jobs=options.jobs))


def curve_of_log(logs: Path, method: str, sigma: float, ratios: tuple[float, ...]) -> Curve:
    return curve_of(Population.read(logs, method, sigma), method, sigma, ratios)


def curve_of(population: Population, method: str, sigma: float, ratios: tuple[float, ...]) -> Curve:
    noise, radii = Gaussian(sigma), tuple(ratio * sigma for ratio in ratios)
    expected = cache(plan(Optimal(radii=radii), noise, 0.0, alpha=ALPHA, beta=BETA).expected)

    def certified(p: float, i: int) -> float:
        outcome = expected(p)
        assert isinstance(outcome, CurveOutcome)
        return outcome.certified[i]

    def change(i: int) -> float:
        fixed = plan(Fixed(), noise, radii[i], alpha=ALPHA, beta=BETA)
        return 100 * population.mean_of_correct(lambda p: certified(p, i) - fixed.expected(p).certify)

    return Curve(
        setting=f"{method} σ={sigma:g}",
        held_out=method in HELD_OUT,
        radii=radii,
        samples=population.mean(lambda p: expected(p).samples),
        changes=tuple(change(i) for i in range(len(radii))),
    )


def report(curves: list[Curve]) -> Result:
    columns = ("setting", "radii", "samples", "x Certify", "least change of accuracy", "most")
    rows = [
        (
            each.setting,
            len(each.radii),
            round(each.samples),
            round(each.gain, 1),
            round(min(each.changes), 4),
            round(max(each.changes), 4),
        )
        for each in curves
    ]
    figures = []
    for count, goal in ((3, 13.0), (7, 3.8)):
        held_out = [each.gain for each in curves if each.held_out and len(each.radii) == count]
        everywhere = [each.gain for each in curves if len(each.radii) == count]
        figures += [
            Figure(
                f"{count} radii, times fewer samples than Certify, least held-out setting", min(held_out), at_least=goal
            ),
            Figure(f"{count} radii, geometric mean over all settings", geometric_mean(everywhere)),
        ]
    changes = [change for each in curves for change in each.changes]
    least, lower = min(changes), sum(change < 0 for change in changes)
    figures.append(Figure("least change of certified accuracy at any radius, points", least, at_least=0.0))
    return Result(
        name="curves",
        compares="exact mean samples per image of one run of `optimal` for several radii, against Certify (100,100)",
        columns=columns,
        rows=rows,
        figures=figures,
        notes=(
            f"alpha = {ALPHA:g}, 10,000 images of CIFAR-10 in each log. Three radii: 1, 2 and 3 sigma (2.5 for "
            "sigma = 1); seven: .5, 1, ..., 3.5 sigma. Changes of certified accuracy are in points, over the radii of "
            "a row.",
            f"Accuracy is lower at {lower} of {len(changes)} radii, at most by {max(0.0, -least) / 100 * IMAGES:.2g} "
            f"of {IMAGES:,} images.",
        ),
    )
