"""The ACR of one training method over that of another, from the CSV files of two evaluations on the same images."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.paper.outcomes import Outcomes, ratio_between
from benchmarks.paper.published import CONSISTENCY, GAUSSIAN
from benchmarks.result import Figure, Result

GOAL = 1.05
"""What the ACR of one member trained by consistency is to be, relative to one trained with Gaussian noise alone."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--one", type=Path, required=True, metavar="CSV", help="the evaluation of consistency members")
    parser.add_argument("--other", type=Path, required=True, metavar="CSV", help="that of Gaussian members")


def run(options: argparse.Namespace) -> Result:
    one, other = Outcomes.read(options.one), Outcomes.read(options.other)
    shared = [setting for setting in one.sizes.values() if setting in other.radii]
    ratios = {setting: ratio_between(one, other, setting) for setting in dict.fromkeys(["fixed-k1", *shared])}
    rows = [
        (setting, one.acr(setting), other.acr(setting), ratio, theirs(setting)) for setting, ratio in ratios.items()
    ]
    return Result(
        name="trainings",
        compares=f"the average certified radii of {options.one.stem} with those of {options.other.stem}",
        columns=("setting", f"ACR of {options.one.stem}", f"ACR of {options.other.stem}", "ratio", "the paper"),
        rows=rows,
        figures=[Figure("ACR of consistency / of Gaussian training, k = 1", ratios["fixed-k1"].value, at_least=GOAL)],
        notes=[
            f"{len(one.images)} images, {one.samples['fixed-k1']:,.0f} samples of each in both files. Intervals are "
            "95 % by the bootstrap over images. The paper's ratios are of ResNet20 at sigma = .25 with n = 100,000."
        ],
    )


def theirs(setting: str) -> float | str:
    """The same ratio in the paper's tables, where they have this size."""
    k = int(setting.removeprefix("fixed-k").partition("-")[0])
    tables = (CONSISTENCY.rows, GAUSSIAN.rows)
    return round(tables[0][k].acr / tables[1][k].acr, 3) if all(k in table for table in tables) else ""
