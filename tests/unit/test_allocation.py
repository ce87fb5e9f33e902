"""The samples of a transfer go where they win most radius, and follow from the old certificates."""

from __future__ import annotations

import itertools

import pytest

from smoothcert.allocation import allocate, fewest, prospect
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from tests.support.ledgers import certified

SURE, LIKELY, HALF = (certified(0, p_a, procedure=Fixed(n=100_000)) for p_a in (1.0, 0.9, 0.52))


def sizes(*certificates: object, **options: float) -> list[int]:
    return [each.n for each in allocate(certificates, alpha=0.001, **options) if each]  # type: ignore[arg-type]


def test_a_class_that_is_nearly_certain_takes_most_samples() -> None:
    sure, likely, half = sizes(SURE, LIKELY, HALF)
    assert half < likely < sure < 100_000
    assert [each and each.joint for each in allocate([SURE, LIKELY], alpha=0.001)] == [False, True]


def test_less_loss_and_more_disagreement_take_more_samples() -> None:
    for one, more in ((0.03, 0.01), (0.1, 0.03)):
        assert all(a < b for a, b in zip(sizes(SURE, LIKELY, loss=one), sizes(SURE, LIKELY, loss=more), strict=True))
    assert sizes(LIKELY, disagreement=0.1) > sizes(LIKELY, disagreement=0.0)


def test_no_other_choice_of_sizes_keeps_as_much_with_fewer_samples() -> None:
    prospects = [prospect(Gaussian(0.25), count, 10_000, 0.001, 0.05) for count in (10_000, 9_500, 7_000)]
    whole = sum(each.whole for each in prospects)

    def kept(places: tuple[int, ...]) -> float:
        return sum(float(each.radii[place]) for each, place in zip(prospects, places, strict=True))

    found = fewest(prospects, 0.03)
    mine = tuple(int(each.sizes.searchsorted(size)) for each, size in zip(prospects, found, strict=True))
    assert kept(mine) >= 0.97 * whole
    for places in itertools.product(*(range(len(each.sizes)) for each in prospects)):
        if kept(places) >= kept(mine):
            assert sum(int(each.sizes[place]) for each, place in zip(prospects, places, strict=True)) >= sum(found)


def test_a_loss_that_cannot_be_kept_takes_all_samples_and_no_more() -> None:
    sure, likely = sizes(SURE, LIKELY, loss=1e-9)
    assert likely <= sure == 100_000


def test_an_abstention_has_nothing_to_transfer() -> None:
    abstained = certified(0, 0.4, procedure=Fixed(n=1000))
    assert abstained.decision == "abstain"
    assert allocate([abstained], alpha=0.001) == [None]
    assert allocate([], alpha=0.001) == []


def test_shares_are_shares() -> None:
    for share in (0, 1, -0.1, float("nan")):
        with pytest.raises(DomainError, match="loss must be a share of the radii"):
            allocate([LIKELY], alpha=0.001, loss=share)
    with pytest.raises(DomainError, match="disagreement must be a share between 0 and 1, got 2"):
        allocate([LIKELY], alpha=0.001, disagreement=2)
