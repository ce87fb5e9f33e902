"""Published per-image logs of Certify: the p_A of every image, found back from its radius.

Every log has the columns idx, label, predict, radius, correct and time, with tabs between them, as the repositories
that follow Cohen et al. (2019) publish them. Each radius was reached with n = 100,000 samples under Gaussian noise. It
is turned back into the count it came from and so into p_A; an abstention counts as p_A = .4.
"""

from __future__ import annotations

import argparse
import csv
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import exp, fsum, log
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import track

from smoothcert.bounds import lower_bound
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian

Answer = TypeVar("Answer")

N = 100_000
"""The samples of each radius in the logs."""
ABSTAINED_P_A = 0.4
"""The p_A of an image on which the log has an abstention: it is unknown there, and certainly proves no radius."""


@dataclass(frozen=True)
class LoggedImage:
    """One row of a log: the probability of the chosen class, and whether that class is right."""

    p_a: float
    correct: bool


def read_log(path: Path, sigma: float, *, alpha: float) -> list[LoggedImage]:
    """The images of one log, whose radii were reached at this alpha; DomainError where one is too large for it."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    check_alpha(path, max((float(row["radius"]) for row in rows), default=0.0), sigma, alpha)
    return [read_row(row, sigma, alpha) for row in rows]


def check_alpha(path: Path, largest: float, sigma: float, alpha: float) -> None:
    """Refuse an alpha at which N samples cannot prove the largest radius of a log: its p_A would all be too high."""
    if largest <= reach(sigma, alpha):
        return
    exact = Gaussian(sigma).probability(largest) ** N  # N of N samples prove p_lower = alpha^(1/N)
    round_ones = (float(f"{exact:.{digits}g}") for digits in (1, 2, 3))
    fitting = next((each for each in round_ones if each < 1 and reach(sigma, each) >= largest), None)
    advice = "no alpha fits it, so sigma may be wrong" if fitting is None else f"alpha = {fitting:g} fits it"
    raise DomainError(
        f"{path}: its largest radius is {largest:g}, but {N:,} samples prove no more than {reach(sigma, alpha):.3g} at "
        f"sigma = {sigma:g} and alpha = {alpha:g}; {advice}"
    )


def reach(sigma: float, alpha: float) -> float:
    """The largest radius that a log may have: what N samples prove, even where three digits round it up."""
    proved = Gaussian(sigma).radius(lower_bound(N, N, alpha))
    return max(proved, float(f"{proved:.3g}"))


def read_row(row: dict[str, str], sigma: float, alpha: float) -> LoggedImage:
    """One row of a log; the class -1 stands for an abstention."""
    if int(row["predict"]) == -1:
        return LoggedImage(ABSTAINED_P_A, correct=False)
    return LoggedImage(p_a_from(float(row["radius"]), sigma, alpha), correct=row["correct"] == "1")


@cache
def p_a_from(radius: float, sigma: float, alpha: float, n: int = N) -> float:
    """count / n for the count whose lower bound comes closest to the radius."""
    p_lower = Gaussian(sigma).probability(radius)
    above = bisect_left(range(n + 1), p_lower, key=lambda k: lower_bound(k, n, alpha))
    closest = min((above - 1, above), key=lambda k: abs(lower_bound(min(k, n), n, alpha) - p_lower))
    return min(closest, n) / n


# --- the logs of five training methods, each of all 10,000 test images of CIFAR-10

METHODS = ("gaussian", "consistency", "macer", "smoothadv", "smoothmix")
"""The training methods of the logs published with eth-sri/acr-weakness."""
HELD_OUT = ("smoothadv", "smoothmix")
"""The methods whose logs had no part in choosing the defaults of our procedures."""
SIGMAS = (0.25, 0.5, 1.0)
RATIOS: Mapping[float, tuple[float, ...]] = {0.25: (1.0, 2.0, 3.0), 0.5: (1.0, 2.0, 3.0), 1.0: (1.0, 2.0, 2.5)}
"""The target radii in standard deviations, by sigma."""
ALPHA = BETA = 0.001
"""The levels of the logs and of every procedure that is compared on them."""
LAYOUT = "a folder of cifar10-METHOD-SIGMA.tsv, the logs data/certify/cifar10 of a clone of eth-sri/acr-weakness"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logs", type=Path, required=True, help=LAYOUT)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="Processes that compute side by side.")


def each_of(function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], *, jobs: int) -> list[Answer]:
    """The answers to all questions, in their order, computed in several processes."""
    with ProcessPoolExecutor(jobs) as pool:
        under_way = [pool.submit(function, *each) for each in arguments]
        return [each.result() for each in track(under_way, description="exact figures", transient=True)]


def log_of_method(folder: Path, method: str, sigma: float) -> Path:
    """The file of one training method at one sigma."""
    names = [folder / f"cifar10-{method}-{text}.tsv" for text in (f"{sigma:g}", f"{sigma:.1f}")]  # 1 or 1.0
    path = next((name for name in names if name.is_file()), None)
    if path is None:
        raise SystemExit(f"there is no log of {method} at sigma {sigma}: looked for {names[-1]}")
    return path


class Population:
    """The images of one log, by p_A; averages over them take one evaluation for each different p_A."""

    def __init__(self, images: Iterable[LoggedImage]) -> None:
        images = list(images)
        self._all = Counter(image.p_a for image in images)
        self._correct = Counter(image.p_a for image in images if image.correct)
        self._size = len(images)

    @classmethod
    def read(cls, folder: Path, method: str, sigma: float) -> Population:
        return cls(read_log(log_of_method(folder, method, sigma), sigma, alpha=ALPHA))

    @property
    def p_as(self) -> list[float]:
        return sorted(self._all)

    def mean(self, of: Callable[[float], float]) -> float:
        """The mean over all images of a function of p_A."""
        return fsum(of(p) * count for p, count in self._all.items()) / self._size

    def mean_of_correct(self, of: Callable[[float], float]) -> float:
        """The same, where images with a wrong class count as 0."""
        return fsum(of(p) * count for p, count in self._correct.items()) / self._size


def geometric_mean(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return exp(fsum(logs) / len(logs))
