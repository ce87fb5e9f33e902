"""The intervals of reports and comparisons contain what they promise; their mutants do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from smoothcert import paired
from smoothcert.estimate import LEVEL, Bootstrap, share
from smoothcert.evaluation import Judged, population_accuracy
from smoothcert.paired import difference_interval
from smoothcert.procedures import Fixed
from tests.support.certificates import certificate_of

Interval = Callable[[int, int, int], tuple[float, float]]


# --- shares of a population


def uncovered(interval: Callable[[int, int], tuple[float, float]], n: int, p: float) -> float:
    """The exact chance that the interval of a share does not contain p, over all counts."""
    ends = [interval(count, n) for count in range(n + 1)]
    missed = [not low - 1e-12 <= p <= high + 1e-12 for low, high in ends]
    return float(stats.binom.pmf(np.arange(n + 1), n, p) @ missed)


def exact(count: int, n: int) -> tuple[float, float]:
    found = share(np.arange(n) < count)
    return found.low / 100, found.high / 100


def wald(count: int, n: int) -> tuple[float, float]:
    """The mutant: a normal law with the estimated variance."""
    p = count / n
    spread = stats.norm.ppf(1 - LEVEL / 2) * np.sqrt(p * (1 - p) / n)
    return p - spread, p + spread


def test_the_interval_of_a_share_keeps_its_level_for_every_population() -> None:
    """Mutant killed: the interval of a normal law, which is too short near 0 and 1."""
    populations = np.linspace(0.005, 0.995, 100)
    assert max(uncovered(exact, 50, p) for p in populations) <= LEVEL
    assert max(uncovered(wald, 50, p) for p in populations) > 5 * LEVEL


def test_certified_accuracy_of_drawn_images_covers_that_of_their_population() -> None:
    """This is simulated from images to interval. Mutant killed: an interval of half of its level."""
    rng = np.random.default_rng(1)
    kinds = [Judged(certificate_of(Fixed(n=1000), p), label) for p, label in ((0.99, 1), (0.8, 1), (0.99, 0), (0.4, 1))]
    weights, radius, runs, n = [0.35, 0.3, 0.15, 0.2], 0.3, 400, 60
    truth = 100 * sum(w for w, each in zip(weights, kinds, strict=True) if each.right_within(radius))
    assert truth == 35
    found = [population_accuracy([kinds[place] for place in rng.choice(4, n, p=weights)], radius) for _ in range(runs)]
    missed = sum(not each.low <= truth <= each.high for each in found)
    narrow = sum(abs(each.value - truth) > (each.high - each.low) / 4 for each in found)
    assert missed <= stats.binom.ppf(1 - 1e-6, runs, LEVEL) < narrow


def test_the_bootstrap_interval_of_a_mean_covers_nearly_as_often_as_it_says() -> None:
    """Mutant killed: resampling of half of the images, as if there were no more."""
    rng, runs, n = np.random.default_rng(3), 400, 200
    bootstrap, other = Bootstrap(n), Bootstrap(4 * n)
    draws = [np.where(rng.random(n) < 0.3, 0.0, rng.beta(4, 2, n)) for _ in range(runs)]
    truth = 0.7 * 4 / 6
    missed = sum(not (found := bootstrap.mean(each)).low <= truth <= found.high for each in draws)
    repeated = sum(not (found := other.mean(np.tile(each, 4))).low <= truth <= found.high for each in draws)
    assert missed <= stats.binom.ppf(1 - 1e-6, runs, 1.3 * LEVEL) < repeated


# --- paired differences


@cache
def ends(interval: Interval, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every outcome as its gains, its losses and the rest, and the interval of each."""
    counts = [(gained, lost) for gained in range(n + 1) for lost in range(n + 1 - gained)]
    found = np.array([interval(*each, n) for each in counts])
    return np.array([(*each, n - sum(each)) for each in counts]), found[:, 0], found[:, 1]


def beyond(interval: Interval, n: int, gain: float, loss: float) -> float:
    """The exact chance, over all outcomes, that the difference is beyond an end of the interval; the larger one."""
    counts, low, high = ends(interval, n)
    chance = stats.multinomial.pmf(counts, n, [gain, loss, 1 - gain - loss])
    return float(max(chance @ (low > gain - loss + 1e-9), chance @ (high < gain - loss - 1e-9)))


def ours(gained: int, lost: int, n: int) -> tuple[float, float]:
    return difference_interval(gained, lost, n, level=0.1)


def paired_wald(gained: int, lost: int, n: int) -> tuple[float, float]:
    """The mutant: a normal law with the estimated variance, as in textbooks."""
    seen = (gained - lost) / n
    spread = stats.norm.ppf(0.95) * np.sqrt(((gained + lost) / n - seen**2) / n)
    return seen - spread, seen + spread


@pytest.mark.parametrize("n", [6, 14])
def test_the_interval_of_a_paired_difference_keeps_its_level_for_every_population(n: int) -> None:
    """This is exact. Mutant killed: the interval of a normal law, which is empty without disagreements."""
    populations = [(gain, loss) for gain in (0.001, 0.02, 0.1, 0.25, 0.4, 0.6) for loss in (0.0, 0.01, 0.05, 0.15, 0.4)]
    assert max(beyond(ours, n, *each) for each in populations) <= 0.05
    assert max(beyond(paired_wald, n, *each) for each in populations) > 0.3


def worst_just_beyond_an_end(n: int, level: float) -> float:
    """The largest chance to miss on one side, over populations whose difference is just beyond one of the ends."""

    def interval(gained: int, lost: int, n: int) -> tuple[float, float]:
        return difference_interval(gained, lost, n, level=level)

    found = 0.0
    for delta in (high + 1e-6 for high in ends(interval, n)[2] if high < 0.999):
        rates = abs(delta) + (1 - abs(delta)) * np.sin(np.linspace(0, np.pi / 2, 25, endpoint=False)) ** 2
        found = max(found, *(beyond(interval, n, (rate + delta) / 2, (rate - delta) / 2) for rate in rates))
    return found


def test_no_population_is_missed_too_often_at_the_ends_of_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is exact; ten radii at 95 % have this level each. Mutant killed: a worst rate that is sought among four."""
    assert worst_just_beyond_an_end(10, 0.005) <= 0.0025
    monkeypatch.setattr(paired, "RATES", 4)
    paired._upper.cache_clear()
    assert worst_just_beyond_an_end(10, 0.005) > 0.0025
    paired._upper.cache_clear()


def test_at_many_images_the_interval_is_hardly_longer_than_it_must_be() -> None:
    """This is simulated at the size of a release. An interval that is too long would pass the test above."""
    rng, runs, n, gain, loss = np.random.default_rng(5), 120, 300, 0.03, 0.06
    drawn = rng.multinomial(n, [gain, loss, 1 - gain - loss], size=runs)
    found = {tuple(each): difference_interval(*each[:2].tolist(), n, level=0.1) for each in drawn}
    missed = [not found[tuple(each)][0] <= gain - loss <= found[tuple(each)][1] for each in drawn]
    assert stats.binom.ppf(1e-4, runs, 0.05) <= sum(missed) <= stats.binom.ppf(1 - 1e-6, runs, 0.1)
