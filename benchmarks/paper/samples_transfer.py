"""Evaluations and average certified radius of `transfer`, computed exactly for known p_A and disagreement.

The old counts are those of the shipped ensemble with n = 10,000 (`fixed.csv`) and of a published log with n = 100,000,
both at sigma = .25. The new ensemble has the same p_A: it loses as many samples of the class as it wins, and both
together are the disagreement. The plan does not know it, and expects its default. The last column is the best that any
`loss` gives while the ACR loses as much as the goal of `transfer` allows.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.special import betaincinv

from benchmarks.paper.samples_logs import ALPHA, LAYOUT, LoggedImage, N, log_of_method, p_a_from, read_log
from benchmarks.paper.transfer import LOST, SAVED
from benchmarks.result import Figure, Result
from smoothcert.allocation import DISAGREEMENT, LOSS, fewest, prospect
from smoothcert.bounds import ALMOST_ONE
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.procedures.transfer import runs_jointly
from smoothcert.product import lower_difference

RESULTS = Path(__file__).parents[1] / "results"
SIGMA = 0.25
DISAGREEMENTS = (0.0, 0.001, 0.005)
"""The shares of all samples on which both ensembles disagree; at most twice the share that is not of the class."""
EACH = 20
"""The distance of the images of the log, as in the paper."""
STEPS = 64
"""The steps of the bound, fewer than those of a certificate: the radius is a little smaller than it would be."""


@dataclass(frozen=True)
class ExpectedTransfer:
    """What a transfer of all images is expected to need and to keep, against certifying anew."""

    saved: float
    """How many times fewer evaluations."""
    lost: float
    """The percentage of the average certified radius."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logs", type=Path, required=True, help=LAYOUT)
    parser.add_argument("--loss", type=float, default=LOSS, help="the share of all radii together that may be lost")


def run(options: argparse.Namespace) -> Result:
    log = read_log(log_of_method(options.logs, "gaussian", SIGMA), SIGMA, alpha=ALPHA)[::EACH]
    populations = {"shipped": (shipped(RESULTS / "fixed.csv", 10_000), 10_000), "gaussian, log": (log, N)}
    rows, figures = [], []
    for name, (images, n) in populations.items():
        for zeta in DISAGREEMENTS:
            found, best = expectation(images, n, zeta, options.loss), reachable(images, n, zeta)
            rows.append((name, n, len(images), f"{zeta:.1%}", *(round(x, 2) for x in (found.saved, found.lost, best))))
            figures.append(Figure(f"evaluations, {name}, {zeta:.1%}, {LOST:g} % of the ACR", best, at_least=SAVED))
    return Result(
        name="transfer-expected",
        compares="a transfer with certifying anew at equal n: exact expectations for p_A that are known",
        columns=(
            "p_A of",
            "n",
            "images",
            "disagreement",
            f"evaluations anew / by transfer, loss = {options.loss:g}",
            "ACR lost, %",
            f"evaluations anew / by transfer, where {LOST:g} % are lost",
        ),
        rows=rows,
        figures=figures,
    )


def reachable(images: Sequence[LoggedImage], n: int, zeta: float) -> float:
    """How many times fewer evaluations are needed at the largest `loss` at which the ACR loses no more than LOST %."""
    low, high = 0.001, 0.2
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (middle, high) if expectation(images, n, zeta, middle).lost <= LOST else (low, middle)
    return expectation(images, n, zeta, low).saved


def shipped(path: Path, n: int) -> list[LoggedImage]:
    """The images of the shipped ensemble, all members together."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["setting"] == "fixed-k5"]
    return [
        LoggedImage(
            p_a_from(float(row["radius"]), SIGMA, ALPHA, n) if row["stop_reason"] == "certified" else 0.0,
            correct=row["class_index"] == row["label"],
        )
        for row in rows
    ]


def expectation(images: Sequence[LoggedImage], n: int, zeta: float, loss: float) -> ExpectedTransfer:
    """An image whose old p_A is below .5 was abstained from: it costs n samples anew, and none by a transfer."""
    noise = Gaussian(SIGMA)
    claims = [image for image in images if image.p_a > 0.5]
    counts = [round(image.p_a * n) for image in claims]
    sizes = fewest([prospect(noise, count, n, ALPHA, DISAGREEMENT) for count in counts], loss)
    anew, moved = [], []
    for image, count, m in zip(claims, counts, sizes, strict=True):
        if image.correct:
            anew.append(counted(n, count / n))
            moved.append(transferred(count, n, m, zeta))
    return ExpectedTransfer(
        saved=len(images) * (Fixed().n0 + n) / sum(sizes), lost=100 * (1 - fsum(moved) / fsum(anew))
    )


@cache
def counted(n: int, p: float) -> float:
    """The mean radius of n samples of an ensemble."""
    return mean(n, p, lambda counts: np.minimum(betaincinv(np.maximum(counts, 1), n - counts + 1, ALPHA), ALMOST_ONE))


@cache
def transferred(count: int, n: int, m: int, zeta: float) -> float:
    """The mean radius by a transfer of m samples from a count of n."""
    if not runs_jointly(count, n):
        return counted(m, count / n)
    lost = min(zeta, 2 * (1 - count / n)) / 2
    return mean(m, lost, lambda losses: [lower_difference(count, n, y, m, ALPHA, steps=STEPS) for y in losses])


def mean(n: int, p: float, bounds: Callable[[np.ndarray], Sequence[float] | np.ndarray]) -> float:
    """The mean over a binomial count of the radius that its bound proves."""
    low, high = stats.binom.ppf([1e-9, 1 - 1e-9], n, p)
    counts = np.arange(max(low, 0), high + 1)
    weights = stats.binom.pmf(counts, n, p)
    radii = SIGMA * stats.norm.ppf(np.maximum(bounds(counts), 0.5))
    return float(weights @ radii / weights.sum())
