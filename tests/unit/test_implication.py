"""What a radius says in other norms, compared with all changes of tiny images.

No test repeats a formula: a claim is true if every change within it is within the certified ball, and it is the largest
if a slightly larger one is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcert
from smoothcert.certificate import Certificate
from smoothcert.implication import Implication, implications, implied
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Uniform
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.verdict import floor_radius
from tests.support.certificates import certificate_of, provenance_of

Change = tuple[int, ...]
UNIT = Fraction(1, 10**6)
"""The unit to which radii are rounded down."""
SQUARES: dict[str, Callable[[Change], int]] = {
    "l2": lambda change: sum(each**2 for each in change),
    "l1": lambda change: sum(map(abs, change)) ** 2,
    "linf": lambda change: max(map(abs, change)) ** 2,
}
"""The squared norms of a change, which are whole numbers."""


class AnyL1(Uniform):
    """An l1 noise for all images, not only for those of 8 bits."""

    eight_bit = False


ANY_LINF: Any = SimpleNamespace(norm="linf", eight_bit=False, image_values=None, l2_square=lambda _: None)
"""An l-infinity noise of which only the radius is known."""


def changes(d: int, most: int) -> Iterator[Change]:
    return product(range(-most, most + 1), repeat=d)


def by_norm(found: tuple[Implication, ...]) -> dict[str, Fraction]:
    return {each.norm: Fraction(repr(each.radius)) for each in found}


decimals = st.integers(1, 3 * 10**6).map(lambda n: n / 10**6) | st.sampled_from([1.0, 1.5, 2.0, 3.0])


@settings(max_examples=60, deadline=None)
@given(noise=st.sampled_from([Gaussian(0.25), AnyL1(1.0), ANY_LINF]), radius=decimals, d=st.integers(1, 3))
def test_a_ball_of_real_images_is_inside_and_a_larger_one_is_not(noise: Noise, radius: float, d: int) -> None:
    """Norms are homogeneous, so it is enough to compare them along every direction.

    Mutants killed: sqrt(d) for d and d for sqrt(d); rounding to the nearest.
    """
    certified, own = Fraction(repr(radius)) ** 2, SQUARES[noise.norm]
    found = by_norm(implications(noise, radius, d))
    directions = [each for each in changes(d, 3) if any(each)]
    for norm in SQUARES.keys() - {noise.norm}:
        stretch = max(Fraction(own(each), SQUARES[norm](each)) for each in directions)
        assert found.get(norm, Fraction(0)) ** 2 * stretch <= certified
        assert (found.get(norm, Fraction(0)) + UNIT) ** 2 * stretch > certified


@settings(max_examples=60, deadline=None)
@given(noise=st.sampled_from([RoundedGaussian(0.25), Uniform(1.0)]), n=st.integers(1, 16_000), d=st.integers(1, 3))
def test_among_8_bit_images_it_covers_all_that_follow(noise: Noise, n: int, d: int) -> None:
    """Mutants killed: the l2 radius of real images from an l1 radius; a ball that contains only the image."""
    radius = n / 10**6
    certified, own = (255 * Fraction(repr(radius))) ** 2, SQUARES[noise.norm]
    found = by_norm(implications(noise, radius, d))
    everything = list(changes(d, 6))
    for norm in SQUARES.keys() - {noise.norm}:
        end = min(SQUARES[norm](each) for each in everything if own(each) >= certified)
        claimed = (255 * found.get(norm, Fraction(0))) ** 2
        assert claimed <= end
        following = max(SQUARES[norm](each) for each in everything if SQUARES[norm](each) < end)
        almost = (255 * (found.get(norm, Fraction(0)) + UNIT)) ** 2
        assert following < almost or following == 0, "no 8-bit image that follows is left out"
        assert norm not in found or 0 < following < almost, "and nothing is said that covers the image alone"


@settings(max_examples=60, deadline=None)
@given(noise=st.sampled_from([Gaussian(1.0), RoundedGaussian(1.0), Uniform(3.0), ANY_LINF]), radius=decimals)
def test_so_many_values_may_change_within_0_to_1_and_not_one_more(noise: Noise, radius: float) -> None:
    """Mutants killed: floor(R^2) for ceil(R^2) - 1, and floor(R) for ceil(R) - 1; whole radii kill both."""
    d, steps = 4, 2
    certified, own = Fraction(repr(radius)) ** 2, SQUARES[noise.norm]
    (count,) = [each.radius for each in implications(noise, radius, d) if each.norm == "l0"] or [0.0]
    largest = dict.fromkeys(range(d + 1), 0)
    for each in changes(d, steps):
        changed = sum(map(bool, each))
        largest[changed] = max(largest[changed], own(each))
    inside = [k for k in range(d + 1) if Fraction(largest[k], steps**2) < certified]
    assert count == max(k for k in inside if set(range(k + 1)) <= set(inside))


@pytest.mark.parametrize(
    ("noise", "radius", "d", "expected"),
    [
        (Gaussian(0.5), 1.0, 3072, {"l1": 1.0, "linf": 0.018042}),
        (Gaussian(0.5), 1.000001, 3072, {"l1": 1.000001, "linf": 0.018042, "l0": 1}),
        (Gaussian(1.0), 2.0, 4, {"l1": 2.0, "linf": 1.0, "l0": 3}),
        (Gaussian(1.0), 2.0, None, {"l1": 2.0, "l0": 3}),
        (Gaussian(1.0), 9.0, 4, {"l1": 9.0, "linf": 4.5, "l0": 4}),
        (Gaussian(0.25), 0.000001, 3072, {"l1": 0.000001}),
        (RoundedGaussian(0.25), 0.25, 3072, {"l1": 0.25, "linf": 0.00451}),
        (RoundedGaussian(0.25), 0.2, 3072, {"l1": 0.2}),
        (Uniform(1.0), 0.5, 3072, {"l2": 0.044367}),
        (Uniform(3.0), 2.5, 192, {"l2": 0.182342, "linf": 0.01302, "l0": 2}),
        (Uniform(3.0), 2.5, None, {"l0": 2}),
        (GaussianLinf(1.0, 3072), 0.03, 3072, {"l2": 1.662768, "l1": 1.662768, "l0": 2}),
        (GaussianLinf(1.0, 4), 1.5, None, {"l2": 3.0, "l1": 3.0, "l0": 4}),
        (ANY_LINF, 0.03, 3072, {"l2": 0.03, "l1": 0.03}),
        (Replacement(0.8, 2), 9.0, 784, {}),
    ],
)
def test_known_answers(noise: Noise, radius: float, d: int | None, expected: dict[str, float]) -> None:
    found = implications(noise, radius, d)
    assert {each.norm: each.radius for each in found} == expected
    assert {each.eight_bit for each in found} <= {noise.eight_bit}
    assert [each.norm for each in found if each.bounded] == (["l0"] if "l0" in expected else [])


@settings(max_examples=60, deadline=None)
@given(p=st.floats(0.51, 0.999999), d=st.integers(1, 4000))
def test_an_l_infinity_radius_of_gaussian_noise_says_what_the_same_counts_prove_in_l2(p: float, d: int) -> None:
    """Mutant killed: the l2 radius of any l-infinity ball, which is smaller by sqrt(d)."""
    proved, radius = Gaussian(0.25).radius(p), floor_radius(GaussianLinf(0.25, d).radius(p))
    found = by_norm(implications(GaussianLinf(0.25, d), radius, d)).get("l2", Fraction(0))
    assert found <= proved
    assert found > proved - 2e-6 * (d**0.5 + 1)


def test_the_size_of_the_image_is_in_the_provenance() -> None:
    shape = (1, 2, 2)
    certificate = certificate_of(Fixed(n=1000), 0.99, provenance=provenance_of(shape))
    assert smoothcert.implied(certificate) == implications(certificate.noise, certificate.radius, prod(shape))
    assert [each.norm for each in implied(certificate)] == ["l1", "linf"]
    alone = certificate_of(Fixed(n=1000), 0.99)
    assert [each.norm for each in implied(alone)] == ["l1"]


def test_an_abstention_implies_nothing() -> None:
    certificate = certificate_of(Adaptive(), 0.5, provenance=provenance_of((3, 2, 2)))
    assert certificate.decision == "abstain"
    assert implied(certificate) == ()
    assert implied(certificate.model_copy(update={"radius": 0.25})) == (), "whatever it says besides"


def test_neither_does_a_certificate_about_the_image_alone() -> None:
    fields: Any = {"decision": "certified", "radius": 0.0, "noise": Gaussian(0.25), "provenance": None}
    assert implied(Certificate.model_construct(**fields)) == ()
