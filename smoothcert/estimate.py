"""Figures with their uncertainty: exact for shares of images, by the bootstrap over images for means and ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.bounds import lower_bound, upper_bound

Floats = npt.NDArray[np.float64]
LEVEL = 0.05
"""One minus the confidence of every interval."""
DRAWS = 2000
"""The number of resamples of the images: the ends of a 95 % interval then rest on 50 resamples each."""
BLOCK = 100
"""The resamples that are drawn at a time."""
MOST_KEPT = 2000
"""The most images whose resamples are kept for the next figure: 32 MB."""


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.value)} ({_short(self.low)} to {_short(self.high)})"

    def as_json(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Bootstrap:
    """Resamples of `images` images. All figures of a study use the same ones, so their comparisons are paired."""

    images: int

    def _blocks(self) -> Iterator[Floats]:
        """[BLOCK, images]: how often each resample has each image, divided by the number of images."""
        generator = np.random.default_rng(0)
        for _ in range(DRAWS // BLOCK):
            drawn = generator.multinomial(self.images, np.full(self.images, 1 / self.images), size=BLOCK)
            yield drawn / self.images

    @cached_property
    def _kept(self) -> list[Floats]:
        return list(self._blocks())

    def _means(self, values: Floats) -> Floats:
        """The mean of each resample."""
        blocks = self._kept if self.images <= MOST_KEPT else self._blocks()
        return np.concatenate([block @ values for block in blocks])

    def mean(self, values: npt.ArrayLike) -> Estimate:
        array = np.asarray(values, np.float64)
        return _estimate(float(array.mean()), self._means(array))

    def ratio(self, above: npt.ArrayLike, below: npt.ArrayLike) -> Estimate:
        """The ratio of two means over the same images."""
        one, other = np.asarray(above, np.float64), np.asarray(below, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = self._means(one) / self._means(other)
            return _estimate(float(one.mean() / other.mean()), drawn)

    def of_means(self, values: npt.ArrayLike, statistic: Callable[[Floats], float]) -> Estimate:
        """A function of the means over the images of `values` [images, ...]."""
        array = np.asarray(values, np.float64)
        means = self._means(array.reshape(len(array), -1)).reshape(-1, *array.shape[1:])
        return _estimate(statistic(array.mean(0)), np.array([statistic(each) for each in means]))

    def distance(self, values: npt.ArrayLike, statistic: Callable[[Floats], float]) -> Estimate:
        """The same for a distance or a deviation, which scatter between the images can only enlarge.

        Squared distances add: observed^2 = true^2 + scatter^2. A resample adds the scatter once more, so its square
        exceeds the observed one by about as much as the observed one exceeds the true one. The interval therefore ends
        at the upper end of the resamples, and begins as far below the observed value, measured in squares.
        """
        found = self.of_means(values, statistic)
        high = max(found.value, found.high)
        return Estimate(found.value, max(0.0, 2 * found.value**2 - high**2) ** 0.5, high)

    def deviation(self, values: npt.ArrayLike) -> Estimate:
        """The standard deviation over the columns of `values` [images, columns] of their means over the images."""
        return self.distance(values, _deviation)

    def deviation_ratio(self, above: npt.ArrayLike, below: npt.ArrayLike) -> Estimate:
        """The ratio of two such deviations on the same images, in which that scatter cancels to a large part."""
        one, other = np.asarray(above, np.float64), np.asarray(below, np.float64)
        width = one.shape[1]

        def ratio(means: Floats) -> float:
            divisor = _deviation(means[width:])
            return _deviation(means[:width]) / divisor if divisor else float("nan")

        return self.of_means(np.hstack([one, other]), ratio)

    def median(self, values: npt.ArrayLike) -> Estimate:
        """The median of the values that are known; NaN stands for one that is not."""
        array = np.asarray(values, np.float64)
        array = array[~np.isnan(array)]
        if not len(array):
            return Estimate(np.nan, np.nan, np.nan)
        drawn = np.random.default_rng(1).choice(array, (DRAWS, len(array)))
        return _estimate(float(np.median(array)), np.median(drawn, axis=1))


def share(true: npt.ArrayLike) -> Estimate:
    """The percentage of images for which something is true, with the interval of Clopper and Pearson."""
    flags = np.asarray(true, np.bool_)
    count, n = int(flags.sum()), len(flags)
    return Estimate(100 * count / n, 100 * lower_bound(count, n, LEVEL / 2), 100 * upper_bound(count, n, LEVEL / 2))


def plain(cell: Any) -> Any:
    """A cell of a table as JSON has it."""
    if isinstance(cell, Estimate):
        return {key: _finite(value) for key, value in cell.as_json().items()}
    return _finite(cell) if isinstance(cell, float) else cell


def _deviation(values: Floats) -> float:
    return float(values.std(ddof=1))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _estimate(value: float, drawn: Floats) -> Estimate:
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(known, (LEVEL / 2, 1 - LEVEL / 2), method="nearest")
    return Estimate(value, float(low), float(high))


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}" if abs(value) >= 0.1 else f"{value:.3g}"
