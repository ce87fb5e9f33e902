"""Samples per image of each procedure, computed exactly on published per-image logs.

The logs are the `data/certify` folder of the repository locuslab/smoothing (Cohen et al., 2019). They hold, for each
of 500 images, the radius that Certify reached under Gaussian noise with n = 100,000. Their largest radii show that
alpha was .01. Nothing is simulated: for each p_A the expected samples and the probability of a certificate follow
exactly from the boundaries of each procedure.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.progress import track

from benchmarks.paper.samples_logs import LoggedImage, geometric_mean, read_log
from benchmarks.result import Figure, Result
from smoothcert.noise import Gaussian
from smoothcert.plan import plan
from smoothcert.plot import COLOURS, finish, pyplot
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Optimal, Sequential

SETTINGS = {
    ("cifar10", 0.25): (0.25, 0.5, 0.75),
    ("cifar10", 0.5): (1.0, 1.25, 1.5),
    ("cifar10", 1.0): (1.75, 2.0, 2.25, 2.5),
    ("imagenet", 0.25): (0.5,),
    ("imagenet", 0.5): (1.0, 1.5),
    ("imagenet", 1.0): (2.0, 2.5, 3.0, 3.5),
}
"""The target radii for each data set and sigma of the logs."""
NETWORKS = {"cifar10": "resnet110", "imagenet": "resnet50"}
"""The network of each data set, which is a folder in the logs' repository."""
ALPHA = BETA = 0.001
LOG_ALPHA = 0.01
"""The alpha at which the radii of the logs were reached: none is above .978 at sigma = .25."""
PROCEDURES: dict[str, AnyProcedure] = {
    "Certify": Fixed(),
    "CertifyAdp": Adaptive(),
    "CertifyAdp, kept": Adaptive(keep_samples=True),
    "sequential strict": Sequential(abandon="strict"),
    "sequential lost": Sequential(abandon="lost-certificate"),
    "optimal": Optimal(),
}
REFERENCE = "CertifyAdp"
"""The procedure with which the others are compared."""


@dataclass(frozen=True)
class Cost:
    """The behaviour of one procedure in one setting, averaged over the images."""

    samples: float
    accuracy: float
    """Certified accuracy in percent."""
    false_at_p0: float
    """P(certify) where p_A is exactly p0, the worst case of a false certificate."""
    false_rate: float
    """The expected share of images that are certified although p_A < p0."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--logs",
        type=Path,
        required=True,
        help="data/certify of a clone of locuslab/smoothing, or a folder of DATASET-sigma_S.tsv",
    )


def run(options: argparse.Namespace) -> Result:
    pairs = [(dataset, sigma, r) for (dataset, sigma), radii in SETTINGS.items() for r in radii]
    costs = {
        pair: costs_of(images_of(options.logs, pair[0], pair[1]), Gaussian(pair[1]), pair[2])
        for pair in track(pairs, description="exact costs", transient=True)
    }
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        plot(costs, options.write / "samples.png")
    return report(costs)


def costs_of(images: list[LoggedImage], noise: Gaussian, radius: float) -> dict[str, Cost]:
    """The exact cost of each procedure on these images."""
    return {name: cost(procedure, images, noise, radius) for name, procedure in PROCEDURES.items()}


def cost(procedure: AnyProcedure, images: list[LoggedImage], noise: Gaussian, radius: float) -> Cost:
    """The averages over the images; the outcome of each image is exact."""
    planned = plan(procedure, noise, radius, alpha=ALPHA, beta=BETA)
    expected = cache(planned.expected)
    outcomes = [(image, expected(image.p_a)) for image in images]
    return Cost(
        samples=math.fsum(outcome.samples for _, outcome in outcomes) / len(images),
        accuracy=100 * math.fsum(outcome.certify for image, outcome in outcomes if image.correct) / len(images),
        false_at_p0=planned.expected(planned.p0).certify,
        false_rate=math.fsum(o.certify for image, o in outcomes if image.p_a < planned.p0) / len(images),
    )


def report(costs: dict[tuple[str, float, float], dict[str, Cost]]) -> Result:
    """The table, with one row for each setting and procedure, and the ratios between procedures."""
    columns = ("setting", "procedure", "samples", "x fewer", "certified %", "false at p0", "false rate")
    rows = [
        (
            f"{dataset} σ={sigma:g} r={r:g}",
            name,
            round(each.samples, 1),
            round(setting[REFERENCE].samples / each.samples, 2),
            round(each.accuracy, 3),
            float(f"{each.false_at_p0:.3g}"),
            float(f"{each.false_rate:.3g}"),
        )
        for (dataset, sigma, r), setting in costs.items()
        for name, each in setting.items()
    ]
    settings = list(costs.values())
    figures = [
        Figure("sequential strict, times fewer samples", gain(settings, "sequential strict"), at_least=1.95),
        Figure("sequential lost, times fewer samples", gain(settings, "sequential lost"), at_least=2.85),
        Figure("optimal, times fewer samples", gain(settings, "optimal"), at_least=3.6),
        *(
            Figure(
                f"{name}, least change of certified accuracy in points",
                min(setting[name].accuracy - setting[REFERENCE].accuracy for setting in settings),
                at_least=-0.02,
            )
            for name in ("sequential strict", "sequential lost", "optimal")
        ),
        Figure(
            "largest P(certify) at p0, any procedure",
            max(each.false_at_p0 for setting in settings for each in setting.values()),
            at_most=ALPHA,
        ),
        Figure("CertifyAdp, kept, times fewer samples", gain(settings, "CertifyAdp, kept")),
        Figure("Certify, times fewer samples", gain(settings, "Certify")),
    ]
    return Result(
        name="samples",
        compares="exact mean samples per image (selection included) on published logs, against CertifyAdp's defaults",
        columns=columns,
        rows=rows,
        figures=figures,
        notes=(
            f"alpha = beta = {ALPHA:g}; lost: the abandon flavour lost-certificate; "
            f"times fewer samples: geometric mean over the {len(costs)} settings.",
        ),
    )


def gain(settings: Iterable[dict[str, Cost]], name: str) -> float:
    """Geometric mean over the settings of CertifyAdp's samples / this procedure's."""
    return geometric_mean(setting[REFERENCE].samples / setting[name].samples for setting in settings)


def images_of(folder: Path, dataset: str, sigma: float) -> list[LoggedImage]:
    """The images of one log, in either of the two layouts of `--logs`."""
    names = (
        folder / f"{dataset}-sigma_{sigma:.2f}.tsv",
        folder / dataset / NETWORKS[dataset] / f"noise_{sigma:.2f}" / "test" / f"sigma_{sigma:.2f}",
    )
    path = next((name for name in names if name.is_file()), None)
    if path is None:
        raise SystemExit(f"there is no log of {dataset} at sigma {sigma}: looked for {names[0]} and {names[1]}")
    return read_log(path, sigma, alpha=LOG_ALPHA)


def plot(costs: dict[tuple[str, float, float], dict[str, Cost]], path: Path) -> None:
    """Draw the mean samples of each setting, with a mark for each procedure."""
    figure, axes = pyplot().subplots(figsize=(9, 5.5), layout="constrained")
    labels = [f"{dataset} σ={sigma:g} r={r:g}" for dataset, sigma, r in costs]
    for (name, colour), marker in zip(zip(PROCEDURES, COLOURS, strict=False), "sovD^*", strict=True):
        axes.plot([c[name].samples for c in costs.values()], labels, marker, color=colour, label=name, alpha=0.85)
    axes.set(xscale="log", xlabel="mean samples per image, selection included")
    axes.set_title("Samples to decide a radius, exact, on the p_A of published logs")
    axes.invert_yaxis()
    finish(figure, axes, path)
