"""Samples per image of each procedure, computed exactly on published per-image logs.

The logs hold, for each image, the radius that Certify reached under Gaussian noise with n = 100,000. Those of the
repository locuslab/smoothing (Cohen et al., 2019) are of 500 images each; their largest radii show that alpha was .01.
Those of eth-sri/acr-weakness are of five training methods and all 10,000 test images of CIFAR-10, at alpha = .001.
Nothing is simulated: for each p_A the expected samples and the probability of a certificate follow exactly from the
boundaries of each procedure.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.paper.samples_logs import (
    LAYOUT,
    METHODS,
    RATIOS,
    LoggedImage,
    each_of,
    geometric_mean,
    log_of_method,
    read_log,
)
from benchmarks.result import Figure, Result
from smoothcert.errors import require_level
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
"""The alpha of the logs of Cohen et al., unless another one is given: none of their radii is above .978 at .25."""
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
    parser.add_argument(
        "--log-alpha",
        type=float,
        default=LOG_ALPHA,
        help="the alpha of --logs, which is checked against their largest radii (default: %(default)s)",
    )
    parser.add_argument("--methods", type=Path, metavar="FOLDER", help=LAYOUT)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compute side by side")


Setting = tuple[str, float, float]
"""The data set or training method, sigma and the target radius."""


def run(options: argparse.Namespace) -> Result:
    of_cohen = [(dataset, sigma, r) for (dataset, sigma), radii in SETTINGS.items() for r in radii]
    of_methods = [
        (method, sigma, ratio * sigma) for method in METHODS for sigma, ratios in RATIOS.items() for ratio in ratios
    ]
    require_level("--log-alpha", options.log_alpha)
    arguments = [(options.logs, options.log_alpha, *each) for each in of_cohen]
    arguments += [(options.methods, ALPHA, *each) for each in of_methods] if options.methods else []
    for folder, _, name, sigma, _ in arguments:
        log_of(folder, name, sigma)  # what is missing is told before any process starts
    answers = each_of(costs_of, arguments, jobs=options.jobs)
    costs = {(name, sigma, r): each for (_, _, name, sigma, r), each in zip(arguments, answers, strict=True)}
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        plot({setting: costs[setting] for setting in of_cohen}, options.write / "samples.png")
    return report(costs)


def costs_of(folder: Path, log_alpha: float, name: str, sigma: float, radius: float) -> dict[str, Cost]:
    """The exact cost of each procedure on the images of one log, whose radii were reached at log_alpha."""
    images = read_log(log_of(folder, name, sigma), sigma, alpha=log_alpha)
    return {each: cost(procedure, images, Gaussian(sigma), radius) for each, procedure in PROCEDURES.items()}


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


def report(costs: dict[Setting, dict[str, Cost]]) -> Result:
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
    populations = {
        "Cohen et al.": [each for setting, each in costs.items() if setting[0] not in METHODS],
        "five methods": [each for setting, each in costs.items() if setting[0] in METHODS],
    }
    figures = [figure for name, settings in populations.items() if settings for figure in figures_of(name, settings)]
    return Result(
        name="samples",
        compares="exact mean samples per image (selection included) on published logs, against CertifyAdp's defaults",
        columns=columns,
        rows=rows,
        figures=figures,
        notes=(
            f"alpha = beta = {ALPHA:g}; lost: the abandon flavour lost-certificate; times fewer samples: geometric "
            f"mean over the settings of a population, "
            + " and ".join(f"{len(each)} of {name}" for name, each in populations.items() if each)
            + ".",
        ),
    )


def figures_of(population: str, settings: list[dict[str, Cost]]) -> Iterator[Figure]:
    """The ratios over the settings of one population."""
    for name, goal in (
        ("sequential strict", 1.95),
        ("sequential lost", 2.85),
        ("optimal", 3.6),
        ("CertifyAdp, kept", None),
        ("Certify", None),
    ):
        yield Figure(f"{population}: {name}, times fewer samples", gain(settings, name), at_least=goal)
    for name in ("sequential strict", "sequential lost", "optimal"):
        change = min(setting[name].accuracy - setting[REFERENCE].accuracy for setting in settings)
        yield Figure(f"{population}: {name}, least change of certified accuracy in points", change, at_least=-0.02)
    worst = max(each.false_at_p0 for setting in settings for each in setting.values())
    yield Figure(f"{population}: largest P(certify) at p0, any procedure", worst, at_most=ALPHA)


def gain(settings: Iterable[dict[str, Cost]], name: str) -> float:
    """Geometric mean over the settings of CertifyAdp's samples / this procedure's."""
    return geometric_mean(setting[REFERENCE].samples / setting[name].samples for setting in settings)


def log_of(folder: Path, name: str, sigma: float) -> Path:
    """The file of a training method or of a data set at one sigma; SystemExit if there is none."""
    return log_of_method(folder, name, sigma) if name in METHODS else log_of_cohen(folder, name, sigma)


def log_of_cohen(folder: Path, dataset: str, sigma: float) -> Path:
    """The file of one data set at one sigma, in either of the two layouts of `--logs`."""
    names = (
        folder / f"{dataset}-sigma_{sigma:.2f}.tsv",
        folder / dataset / NETWORKS[dataset] / f"noise_{sigma:.2f}" / "test" / f"sigma_{sigma:.2f}",
    )
    path = next((name for name in names if name.is_file()), None)
    if path is None:
        raise SystemExit(f"there is no log of {dataset} at sigma {sigma}: looked for {names[0]} and {names[1]}")
    return path


def plot(costs: dict[Setting, dict[str, Cost]], path: Path) -> None:
    """Draw the mean samples of each setting, with a mark for each procedure."""
    figure, axes = pyplot().subplots(figsize=(9, 5.5), layout="constrained")
    labels = [f"{dataset} σ={sigma:g} r={r:g}" for dataset, sigma, r in costs]
    for (name, colour), marker in zip(zip(PROCEDURES, COLOURS, strict=False), "sovD^*", strict=True):
        axes.plot([c[name].samples for c in costs.values()], labels, marker, color=colour, label=name, alpha=0.85)
    axes.set(xscale="log", xlabel="mean samples per image, selection included")
    axes.set_title("Samples to decide a radius, exact, on the p_A of published logs")
    axes.invert_yaxis()
    finish(figure, axes, path)
