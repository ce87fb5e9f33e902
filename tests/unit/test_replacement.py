"""The l0 thresholds are exact: they equal the enumeration of all outcomes, and the published tables."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from smoothcert.noise.replacement import KEPT, Replacement, exact_thresholds, thresholds

MNIST = ["1/2", "7/8", "31/32", "127/128", "3971/4000", "79759/80000", "1598411/1600000", "31990519/32000000"]
MNIST += ["639946451/640000000", "799935007/800000000", "15999447707/16000000000"]
DOUBLES = [0.5000000000000001, 0.8750000000000001, 0.9687500000000001, 0.9921875000000001, 0.99275, 0.9969875]
DOUBLES += [0.9990068750000001, 0.9997037187500001, 0.9999163296875001, 0.99991875875, 0.9999654816875001]
BYTES = {1: 0.69686274509803921569, 2: 0.85373533256439830835, 3: 0.97898829668830238747, 8: 0.99976849778447424675}
BYTES |= {9: 0.99993970389648837618, 10: 0.99995413274632910463, 13: 0.99999630244182795347, 16: 0.99999957329450045997}


def test_the_thresholds_of_binary_images() -> None:
    assert [str(tau) for tau in exact_thresholds(0.8, 2, 10)] == MNIST
    assert exact_thresholds(0.8, 2, 12)[12] == Fraction(1279995346183, 1280000000000)
    assert list(thresholds(0.8, 2)[:11]) == DOUBLES
    assert len(thresholds(0.8, 2)) == 41


def test_the_thresholds_of_bytes() -> None:
    found = exact_thresholds(0.2, 256, 16)
    assert found[1] == Fraction(1777, 2550)
    assert found[2] == Fraction(2775707, 3251250)
    for r, tau in BYTES.items():
        assert float(found[r]) == pytest.approx(tau, rel=1e-15)
    assert thresholds(0.2, 256)[1:4] == (0.6968627450980392, 0.8537353325643984, 0.9789882966883025)
    assert len(thresholds(0.2, 256)) == 43


def test_thresholds_that_round_to_one_end_the_table() -> None:
    assert exact_thresholds(0.95, 256, 2)[1:] == [Fraction(9689, 9690), Fraction(46948049, 46948050)]
    assert len(thresholds(0.95, 256)) == 5
    assert Replacement(0.95, 256).probability(5) == 1.0


def by_enumeration(keep: Fraction, levels: int, d: int, r: int) -> Fraction:
    """The least p under x for which p' can be 1/2, from all outcomes, sorted by their likelihood ratio."""
    other = (1 - keep) / (levels - 1)
    x, moved = (0,) * d, (1,) * r + (0,) * (d - r)

    def weight(z: tuple[int, ...], start: tuple[int, ...]) -> Fraction:
        total = Fraction(1)
        for a, b in zip(z, start, strict=True):
            total *= keep if a == b else other
        return total

    outcomes = [(weight(z, x), weight(z, moved)) for z in product(range(levels), repeat=d)]
    p, rival = Fraction(0), Fraction(0)
    for here, there in sorted(outcomes, key=lambda each: each[0] / each[1], reverse=True):
        if rival + there >= Fraction(1, 2):
            return p + here * (Fraction(1, 2) - rival) / there
        p, rival = p + here, rival + there
    raise AssertionError


@pytest.mark.parametrize(
    ("keep", "levels", "d"), [(0.5, 3, 4), (0.8, 2, 6), (0.75, 4, 3), (0.6, 3, 3), (0.9, 2, 5), (0.34, 3, 4)]
)
def test_they_equal_the_enumeration_of_all_outcomes_and_do_not_depend_on_the_size_of_the_image(
    keep: float, levels: int, d: int
) -> None:
    exact = exact_thresholds(keep, levels, d)
    assert exact == [by_enumeration(Fraction(str(keep)), levels, d, r) for r in range(d + 1)]


RADII = [(0.0, -1), (0.5, -1), (0.5000000000000001, 0), (0.875, 0), (0.8750000000000001, 1), (0.99, 2), (0.9921875, 2)]
RADII += [(0.9925, 3), (0.99275, 4), (0.9993094630025899, 6), (0.9999309248330094, 9), (0.999999, 14)]
RADII += [(1 - 2.0**-53, 40), (1.0, float("inf"))]


@pytest.mark.parametrize(("p", "radius"), RADII)
def test_radii_are_strict_at_the_thresholds(p: float, radius: float) -> None:
    assert Replacement(0.8, 2).radius(p) == radius


@pytest.mark.parametrize(("keep", "levels"), [(0.8, 2), (0.2, 256), (0.5, 3), (0.125, 16)])
def test_the_die_has_exactly_the_law_of_the_noise(keep: float, levels: int) -> None:
    noise, exact = Replacement(keep, levels), Fraction(str(keep))
    sides = noise._sides
    counts = Counter(noise._levels(np.arange(sides)).tolist())
    own = Fraction(counts[KEPT] + counts[0], sides)  # for a value whose own level is 0
    assert own == exact
    for level in range(1, levels):
        assert Fraction(counts[level], sides) == (1 - exact) / (levels - 1)
