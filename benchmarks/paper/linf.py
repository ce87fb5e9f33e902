"""The table of an evaluation under Gaussian noise, restated in the l-infinity norm.

The samples of `gaussian-linf` are those of `gaussian`, and only the claim differs. So the radii that an evaluation has
written to its CSV file tell the others, and no network runs.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, prod
from pathlib import Path

from benchmarks.paper.evaluation import RADII, significant
from benchmarks.result import Result
from models.errors import DataError
from models.registry import ZOO, describe
from smoothcert.noise import Gaussian, GaussianLinf

RESULTS = Path(__file__).parents[1] / "results"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--csv", type=Path, default=RESULTS / "fixed.csv", help="what `evaluate --write` has written")


@dataclass(frozen=True)
class CertifiedRow:
    """One row of the CSV file: the radius that is proved for the right class; None if there is none."""

    setting: str
    radius: float | None


def run(options: argparse.Namespace) -> Result:
    description = describe(options.ensemble, zoo=options.zoo)
    gaussian = description.noise
    if type(gaussian) is not Gaussian:
        raise DataError(f"{options.ensemble} was trained for {gaussian.label}: only Gaussian noise can be restated")
    linf = GaussianLinf(gaussian.sigma, prod(description.input_shape))
    settings: dict[str, list[float | None]] = {}
    for row in read_rows(options.csv):
        radius = None if row.radius is None else linf.radius(gaussian.probability(row.radius))
        settings.setdefault(row.setting, []).append(radius)
    return Result(
        name="linf",
        compares=f"{options.ensemble} in l-infinity ({linf.label}), by members",
        columns=("setting", "ACR", "ACR in levels of 1/255", *RADII["linf"]),
        rows=[(name, *shares(radii)) for name, radii in settings.items()],
        figures=[],
        notes=[
            f"{len(next(iter(settings.values())))} images; certified accuracy in percent of all images; from the radii "
            f"in {options.csv.name}, which are rounded down to six decimals: R_inf = R_2 / sqrt({linf.dimension})."
        ],
    )


def read_rows(path: Path) -> Iterable[CertifiedRow]:
    """The rows of Certify, which proves the largest radius it can."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["setting"].startswith("fixed-"):
                right = row["class_index"] == row["label"] and row["stop_reason"] == "certified"
                yield CertifiedRow(row["setting"], float(row["radius"]) if right else None)


def shares(radii: list[float | None]) -> list[float]:
    proved = [radius for radius in radii if radius is not None]
    acr = fsum(proved) / len(radii)
    accuracies = [100 * sum(radius >= r for radius in proved) / len(radii) for r in RADII["linf"].values()]
    return [significant(acr), round(255 * acr, 3), *(round(share, 1) for share in accuracies)]
