"""Time to build the boundaries of the sequential procedure, cold and cached."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from benchmarks.result import Figure, Result
from smoothcert.binomial import binomial
from smoothcert.noise import Gaussian
from smoothcert.sequential import Abandon, boundaries, build

RATIOS = (0.1, 0.5, 1.0, 2.0, 3.0, 3.9)
"""The target radius in standard deviations of Gaussian noise, from easy to almost out of reach."""
LIMITS: dict[Abandon, float] = {"strict": 0.5, "lost-certificate": 1.0}
"""The goal for building the boundaries of each flavour, in seconds."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-samples", type=int, default=131_100)


def run(options: argparse.Namespace) -> Result:
    rows = [(flavour, ratio, *times(ratio, flavour, options.max_samples)) for flavour in LIMITS for ratio in RATIOS]
    slowest = {flavour: max(cold for name, _, cold, *_ in rows if name == flavour) for flavour in LIMITS}
    figures = [Figure(f"cold, {flavour}, slowest, s", slowest[flavour], at_most=LIMITS[flavour]) for flavour in LIMITS]
    return Result(
        name="boundaries",
        compares=f"building integer boundaries up to {options.max_samples:,} samples against reading them back",
        columns=("abandon", "r / sigma", "cold s", "from disk ms", "from memory ms"),
        rows=rows,
        figures=[*figures, Figure("cached in memory, slowest, ms", max(row[-1] for row in rows), at_most=1.0)],
    )


def times(ratio: float, flavour: Abandon, max_samples: int) -> tuple[float, float, float]:
    """The seconds to build the boundaries, and the milliseconds to read them from disk and from memory."""
    p0 = Gaussian(1.0).probability(ratio)
    make = partial(build, p0, alpha=0.001, beta=0.001, max_samples=max_samples, abandon=flavour)
    recall = partial(boundaries, p0, alpha=0.001, beta=0.001, max_samples=max_samples, abandon=flavour)
    cold = median(seconds(make, before=binomial.cache_clear) for _ in range(3))
    recall()
    stored = median(seconds(recall, before=boundaries.cache_clear) for _ in range(9))
    return round(cold, 3), round(1000 * stored, 3), round(1000 * median(seconds(recall) for _ in range(9)), 4)


def seconds(work: Callable[[], object], *, before: Callable[[], object] | None = None) -> float:
    """The time of one call, without that of `before`."""
    if before:
        before()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
