"""The image that stands for all in pictures: its p_A, its expected radii, and how far they vary with its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from smoothcert.engine.study.radius import expected_radius
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import sizes, subsets
from smoothcert.estimate import Bootstrap, Estimate

Floats = npt.NDArray[np.float64]
Curve = Callable[[float], float]
N = 1000
"""The samples of the paper's figure."""
BLOCKS = 100
"""The blocks of samples that are resampled. They are independent, and resampling them is cheap."""
POINTS = 17
"""The values of p_A between which an expected radius is interpolated."""
REACH = 8.0
"""The distance of the outermost of these values from the observed p_A, in standard errors: resamples are nearer."""


@dataclass(frozen=True, eq=False)
class Example:
    """One image, and the share of class A by ensemble size, each a mean over the subsets of that size."""

    samples: Samples
    p_a: list[float]
    by_block: Floats
    """[BLOCKS, sizes]: the same in blocks of the samples."""
    _curves: dict[tuple[int, int], Curve] = field(default_factory=dict)
    _bootstrap: Bootstrap = field(default_factory=lambda: Bootstrap(BLOCKS))

    @classmethod
    def of(cls, samples: Samples) -> Example:
        place = samples.example
        logits = torch.from_numpy(samples.recording(place).noisy.copy()).permute(1, 0, 2)
        weights, winner = torch.ones(len(logits)), int(samples.majority[place])
        hits = np.array(
            [
                np.mean(
                    [voter.classes(logits, weights)[0].numpy() == winner for voter in subsets(samples.members, k)], 0
                )
                for k in sizes(samples.members)
            ]
        )
        blocks = np.array([block.mean(1) for block in np.array_split(hits, BLOCKS, axis=1)])
        return cls(samples, hits.mean(1).tolist(), blocks)

    def probability(self, place: int) -> Estimate:
        """p_A of the size at `place`."""
        return self._estimate(self.p_a[place], lambda p: float(p[place]))

    def radius(self, place: int, n: int) -> Estimate:
        """The expected certified radius of that size with n samples."""
        curve = self._near(place, n)
        return self._estimate(self._expected(self.p_a[place], n), lambda p: curve(p[place]))

    def gain(self, place: int, n: int) -> Estimate:
        """By how many percent it exceeds that of one member with N samples."""
        curve, alone = self._near(place, n), self._near(0, N)
        value = gain(self._expected(self.p_a[place], n), self._expected(self.p_a[0], N))
        return self._estimate(value, lambda p: gain(curve(p[place]), alone(p[0])))

    def _expected(self, p: float, n: int) -> float:
        return expected_radius(p, n, noise=self.samples.noise, alpha=self.samples.alpha)

    def _estimate(self, value: float, statistic: Callable[[Floats], float]) -> Estimate:
        drawn = self._bootstrap.of_means(self.by_block, statistic)
        return Estimate(value, drawn.low, drawn.high)

    def _near(self, place: int, n: int) -> Curve:
        """The expected radius as a function of p_A, around the observed p_A."""
        if (place, n) not in self._curves:
            shares = self.by_block[:, place]
            reach = REACH * float(shares.std()) / np.sqrt(len(shares))
            points = np.linspace(max(0.0, shares.mean() - reach), min(1.0, shares.mean() + reach), POINTS)
            values = [self._expected(p, n) for p in points.tolist()]
            self._curves[place, n] = lambda p: float(np.interp(p, points, values))
        return self._curves[place, n]


def gain(radius: float, base: float) -> float:
    """By how many percent one radius exceeds another; NaN if the other is 0."""
    return 100 * (radius / base - 1) if base else float("nan")
