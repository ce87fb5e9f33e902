"""Time to build the boundaries of the sequential procedures, cold and cached."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.result import Figure, Result
from smoothcert import largest, optimal, sequential
from smoothcert.binomial import binomial
from smoothcert.noise import Gaussian
from smoothcert.procedures import Largest, Optimal, Parameters, Sequential

RATIOS = (0.1, 0.5, 1.0, 2.0, 3.0, 3.9)
"""The target radius in standard deviations of Gaussian noise, from easy to almost out of reach."""
LIMITS = {"strict": 0.5, "lost-certificate": 1.0, "optimal": 0.3, "largest": 0.5}
"""The goal for building the boundaries of each kind, in seconds."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-samples", type=int, default=131_100)


def run(options: argparse.Namespace) -> Result:
    n = options.max_samples
    procedures: dict[str, Parameters] = {
        "strict": Sequential(max_samples=n),
        "lost-certificate": Sequential(max_samples=n, abandon="lost-certificate"),
        "optimal": Optimal(max_samples=n),
        "largest": Largest(max_samples=n),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SMOOTHCERT_CACHE"] = folder
        rows = [
            (name, ratio, *times(procedure, ratio, Path(folder)))
            for name, procedure in procedures.items()
            for ratio in RATIOS[: 1 if name == "largest" else None]  # it has no target
        ]
    slowest = {name: max(cold for kind, _, cold, *_ in rows if kind == name) for name in LIMITS}
    figures = [Figure(f"cold, {name}, slowest, s", slowest[name], at_most=LIMITS[name]) for name in LIMITS]
    return Result(
        name="boundaries",
        compares=f"building integer boundaries up to {n:,} samples against reading them back",
        columns=("boundaries", "r / sigma", "cold s", "with the store on disk ms", "from memory ms"),
        rows=rows,
        figures=[*figures, Figure("kept in memory, slowest, ms", max(row[-1] for row in rows), at_most=1.0)],
        notes=(
            "Times are those of the processor. Only abandon boundaries of the sequential procedure are stored: certify "
            "boundaries are always computed.",
        ),
    )


def times(procedure: Parameters, ratio: float, store: Path) -> tuple[float, float, float]:
    """The seconds to build the boundaries, and the milliseconds with the store on disk and from memory."""
    recall = partial(procedure.boundaries, Gaussian(1.0), ratio, alpha=0.001, beta=0.001)

    def forget() -> None:
        for kept in (binomial, sequential.boundaries, optimal.curve, largest.thresholds):
            kept.cache_clear()

    def forget_all() -> None:
        forget()
        for entry in store.iterdir():
            entry.unlink()

    cold = median(seconds(recall, before=forget_all) for _ in range(3))
    stored = median(seconds(recall, before=forget) for _ in range(9))
    return round(cold, 3), round(1000 * stored, 3), round(1000 * median(seconds(recall) for _ in range(9)), 4)


def seconds(work: Callable[[], object], *, before: Callable[[], object] | None = None) -> float:
    """The processor's time of one call, without that of `before`; it does not grow with what else the machine does."""
    if before:
        before()
    began = time.process_time()
    work()
    return time.process_time() - began
