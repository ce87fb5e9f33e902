"""The CSV file of an evaluation, read again: what every setting proved about every image."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smoothcert.errors import DomainError
from smoothcert.estimate import Bootstrap, Estimate

Floats = npt.NDArray[np.float64]
BEST = re.compile(r"fixed-k(\d+)(-K\d+)?")
"""The name of a setting in which the k best members vote and Certify judges them."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The images of an evaluation, and by setting the radius proved for the right class of each (0 where none is)."""

    path: Path
    images: list[tuple[int, int]]
    """The index in the data set and the label of each image."""
    radii: dict[str, Floats]
    samples: dict[str, float]
    """The mean samples of an image, by setting."""

    @classmethod
    def read(cls, path: Path) -> Outcomes:
        rows: dict[str, list[dict[str, str]]] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                rows.setdefault(row["setting"], []).append(row)
        images = {tuple((int(row["image"]), int(row["label"])) for row in each) for each in rows.values()}
        if len(images) != 1:
            raise DomainError(f"{path}: its settings must be about the same images, one row for each; they are not")
        return cls(
            path,
            list(images.pop()),
            {name: np.array([_correct_radius(row) for row in each]) for name, each in rows.items()},
            {name: sum(int(row["samples"]) for row in each) / len(each) for name, each in rows.items()},
        )

    @cached_property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap(len(self.images))

    @cached_property
    def sizes(self) -> dict[int, str]:
        """The settings of Certify by the number of members that vote, the best ones."""
        found = {int(match[1]): name for name in self.radii if (match := BEST.fullmatch(name))}
        return dict(sorted(found.items()))

    @property
    def alone(self) -> list[str]:
        """The settings of Certify in which one member votes, the best one first."""
        return [name for name in self.radii if name == self.sizes.get(1) or name.startswith("fixed-member")]

    def acr(self, setting: str) -> Estimate:
        return self.bootstrap.mean(self.radii[setting])

    def over_one(self) -> tuple[str, Estimate] | None:
        """The ACR of all members over that of the best one, or of the first one where not all were judged alone."""
        if not self.sizes or not self.alone or max(self.sizes) == 1:
            return None
        k = max(self.sizes)
        whole = len(self.alone) == k
        name = max(self.alone, key=lambda each: float(self.radii[each].mean())) if whole else self.alone[0]
        ratio = self.bootstrap.ratio(self.radii[self.sizes[k]], self.radii[name])
        return ("the best member" if whole else "the first member"), ratio


def ratio_between(one: Outcomes, other: Outcomes, setting: str) -> Estimate:
    """The ACR of a setting in one file over that in another; DomainError unless images and samples are the same."""
    for each in (one, other):
        if setting not in each.radii:
            raise DomainError(f"{each.path} has no setting {setting}; it has {', '.join(each.radii)}")
    if one.images != other.images:
        raise DomainError(f"{one.path} and {other.path} must be about the same images in the same order")
    if one.samples[setting] != other.samples[setting]:
        counts = f"{one.samples[setting]:,.0f} and {other.samples[setting]:,.0f}"
        raise DomainError(f"{one.path} and {other.path} must have the same samples of an image; got {counts}")
    return one.bootstrap.ratio(one.radii[setting], other.radii[setting])


def _correct_radius(row: dict[str, str]) -> float:
    return float(row["radius"]) if row["class_index"] == row["label"] else 0.0
