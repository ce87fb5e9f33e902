"""Every noise keeps the contract of `Noise`, and gives numbers that were computed elsewhere.

The golden numbers come from exact rationals and from arithmetic with 30 to 60 digits, not from this code.
"""

from __future__ import annotations

import math
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.bounds import fewest_to_prove
from smoothcert.errors import DomainError
from smoothcert.noise import NOISES, Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Splitting, Uniform
from smoothcert.procedures import Fixed

P_STAR = 0.9999309248330094
"""The lower bound of 100,000 samples that all agree, at alpha = .001."""
P_RING = 0.9993094630025899
"""The lower bound of 10,000 samples that all agree, at alpha = .001."""
ALMOST_ONE = 1 - 2.0**-53

EVERY = [
    Gaussian(0.25),
    Gaussian(1.0),
    RoundedGaussian(0.25),
    RoundedGaussian(0.12),
    GaussianLinf(0.25, 3072),
    GaussianLinf(1.0, 150_528),
    Uniform(1.0),
    Uniform(0.433),
    Replacement(0.8, 2),
    Replacement(0.2, 256),
    Replacement(0.5, 3),
    Splitting(1.0),
    Splitting(0.1, 5),
]
every_noise = pytest.mark.parametrize("noise", EVERY, ids=lambda noise: noise.label)


def test_the_contract_is_kept_by_every_kind() -> None:
    assert {type(noise) for noise in EVERY} >= set(NOISES)


def radii(noise: Noise) -> st.SearchStrategy[float]:
    far = min(10.0, 1.2 * noise.radius(ALMOST_ONE))
    return st.integers(0, 60).map(float) if noise.whole else st.floats(0, far)


@every_noise
@given(data=st.data())
def test_the_least_probability_proves_its_radius_and_no_smaller_one_does(noise: Noise, data: st.DataObject) -> None:
    radius = data.draw(radii(noise))
    p = noise.probability(radius)
    assert 0.5 <= p <= 1.0
    if isinstance(noise, Gaussian):  # the formula of the first edition is rounded to nearest, and stays
        assert radius > 5 * noise.sigma or noise.radius(p) == pytest.approx(radius, rel=1e-6, abs=1e-12)
        return
    assert p == 1.0 or noise.radius(p) >= radius
    assert noise.radius(math.nextafter(p, 0.0)) < radius or radius == 0


@every_noise
@given(st.floats(0, 1), st.floats(0, 1))
def test_a_radius_never_falls_with_the_probability(noise: Noise, p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert noise.radius(low) <= noise.radius(high)
    assert not math.isnan(noise.radius(p))


@every_noise
def test_a_half_proves_nothing(noise: Noise) -> None:
    assert noise.radius(0.5) <= 0
    assert noise.radius(0.0) <= 0
    assert noise.radius(0.3) < 0


@every_noise
@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_probability_outside_its_domain_is_named(noise: Noise, p: float) -> None:
    with pytest.raises(DomainError, match=r"p_lower must lie between 0 and 1, got"):
        noise.radius(p)


@every_noise
@pytest.mark.parametrize("radius", [-1.0, math.inf, math.nan, "1"])
def test_a_radius_outside_its_domain_is_named(noise: Noise, radius: float) -> None:
    with pytest.raises(DomainError, match=r"radius must be .*, got"):
        noise.probability(radius)


@every_noise
def test_a_noise_goes_through_json_and_back(noise: Noise) -> None:
    assert NOISES.validate(noise.parameters()) == noise
    assert noise.label.startswith(noise.name)


LINF = [
    (0.25, 3072, 0.5, 0.0),
    (0.25, 3072, 0.75, 0.0030423190534480565),
    (0.25, 3072, 0.9, 0.0057805011042778241),
    (0.25, 3072, 0.99, 0.010493106025829633),
    (0.25, 3072, 0.999, 0.013938644170503633),
    (0.25, 3072, P_STAR, 0.017191761506857288),
    (0.5, 3072, 0.99, 0.020986212051659266),
    (1.0, 3072, P_STAR, 0.068767046027429153),
    (0.25, 784, 0.99, 0.020770963161078935),
    (0.5, 150_528, 0.99, 0.0029980302930941809),
    (1.0, 150_528, P_STAR, 0.0098238637182041647),
    (0.25, 3072, ALMOST_ONE, 0.037029514898820508),
    (0.25, 1, 0.99, 0.58158696851021019),
]


@pytest.mark.parametrize(("sigma", "dimension", "p", "radius"), LINF)
def test_linf_radii(sigma: float, dimension: int, p: float, radius: float) -> None:
    assert GaussianLinf(sigma, dimension).radius(p) == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize(
    ("sigma", "dimension", "radius", "p"),
    [
        (0.25, 3072, 1 / 255, 0.8076917085899568),
        (0.25, 3072, 2 / 255, 0.95896882307122094),
        (0.25, 3072, 4 / 255, 0.99974711930066058),
        (0.5, 3072, 2 / 255, 0.8076917085899568),
        (1.0, 3072, 8 / 255, 0.95896882307122094),
        (0.5, 150_528, 1 / 255, 0.9988287431214633),
        (1.0, 150_528, 1 / 255, 0.93593126072790828),
        (0.25, 784, 0.01, 0.86864311895726928),
        (0.25, 3072, 0.0, 0.5),
    ],
)
def test_linf_probabilities(sigma: float, dimension: int, radius: float, p: float) -> None:
    assert GaussianLinf(sigma, dimension).probability(radius) == pytest.approx(p, rel=1e-12)


@given(st.floats(0.5, 0.9999))
def test_linf_is_l2_divided_by_the_root_of_the_dimension(p: float) -> None:
    assert GaussianLinf(0.25, 3072).radius(p) * math.sqrt(3072) == pytest.approx(Gaussian(0.25).radius(p), abs=1e-14)


@pytest.mark.parametrize(
    ("reach", "p", "radius"),
    [
        (1.0, 0.5, 0.0),
        (1.0, 0.75, 0.5),
        (1.0, 0.875, 0.75),
        (1.0, 0.9, 0.8),
        (1.0, 0.99, 0.98),
        (1.0, P_STAR, 0.99986184966601876),
        (1.0, P_RING, 0.99861892600517987),
        (1.0, 1.0, 1.0),
        (1.0, 0.4, -0.2),
        (0.25, 0.95, 0.225),
        (3.0, 0.9999, 2.9994),
    ],
)
def test_uniform_radii(reach: float, p: float, radius: float) -> None:
    assert Uniform(reach).radius(p) == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize(
    ("reach", "radius", "p"),
    [
        (1.0, 0.0, 0.5),
        (1.0, 1 / 255, 0.50196078431372549),
        (1.0, 0.25, 0.625),
        (1.0, 0.5, 0.75),
        (1.0, 0.9, 0.95),
        (1.0, 1.0, 1.0),
        (1.0, 1.5, 1.0),
        (0.25, 0.2, 0.9),
        (2.0, 0.1, 0.525),
    ],
)
def test_uniform_probabilities(reach: float, radius: float, p: float) -> None:
    assert Uniform(reach).probability(radius) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(
    ("radius", "samples"), [(0.5, 25), (0.75, 52), (0.9, 135), (0.99, 1_379), (0.999, 13_813), (0.9998, 69_075)]
)
def test_uniform_least_samples(radius: float, samples: int) -> None:
    assert fewest_to_prove(Uniform(1.0).probability(radius), 0.001) == samples


def test_no_number_of_samples_proves_the_reach_itself() -> None:
    assert fewest_to_prove(Uniform(1.0).probability(1.0), 0.001) is None


@pytest.mark.parametrize(
    ("sigma", "p", "radius"),
    [
        (0.25, P_STAR, 0.9528639325849978),
        (0.25, P_RING, 0.79964435438038551),
        (0.5, P_STAR, 1.9057278651699956),
        (0.25, 0.9, 0.32038789105447941),
    ],
)
def test_rounded_gaussian_radii(sigma: float, p: float, radius: float) -> None:
    assert RoundedGaussian(sigma).radius(p) == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "expected"), [(1_000, (4, 3, 0)), (10_000, (6, 7, 2)), (100_000, (9, 8, 2)), (10**6, (11, 12, 3))]
)
def test_the_largest_l0_radius_of_so_many_samples(n: int, expected: tuple[int, ...]) -> None:
    noises = Replacement(0.8, 2), Replacement(0.2, 256), Replacement(0.5, 256)
    assert tuple(Fixed(n=n).largest_radius(noise, alpha=0.001) for noise in noises) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(0.0), r"reach must be positive"),
        (lambda: Uniform(0.001), r"reach must be from 1/255 to 10, got 0\.001"),
        (lambda: Uniform(11.0), r"reach must be from 1/255 to 10, got 11"),
        (lambda: Uniform(0.1234), r"reach must have at most 3 decimals, got 0\.1234"),
        (lambda: Replacement(0.5, 2), r"keep must lie strictly between 1/levels = 0\.5 and 1, got 0\.5"),
        (lambda: Replacement(1.0, 2), r"keep must lie strictly between 1/levels = 0\.5 and 1, got 1\.0"),
        (lambda: Replacement(0.8125, 2), r"keep must have at most 3 decimals, got 0\.8125"),
        (lambda: Replacement(0.8, 1), r"levels must be from 2 to 256, got 1"),
        (lambda: Replacement(0.8, 257), r"levels must be from 2 to 256, got 257"),
        (lambda: RoundedGaussian(11.0), r"sigma must be at most 2"),
        (lambda: RoundedGaussian(-1.0), r"sigma must be positive"),
        (lambda: GaussianLinf(0.25, 0), r"dimension must be from 1"),
        (
            lambda: Replacement(0.8, 2).probability(2.5),
            r"radius must be a whole number for replacement noise, got 2\.5",
        ),
    ],
)
def test_parameters_outside_their_domain_are_named(make: object, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("kind", list(NOISES), ids=lambda kind: kind.__name__)
def test_a_keyword_that_a_noise_has_not_is_told_with_the_nearest_one(kind: type[Noise]) -> None:
    first = next(iter(signature(kind).parameters))
    misspelt = first[:1] + first[2:]
    with pytest.raises(
        TypeError, match=rf"there is no keyword '{misspelt}', did you mean {first}\?; there are {first}"
    ):
        kind(**{misspelt: 1})


def test_an_ensemble_for_gaussian_noise_suits_its_relatives() -> None:
    trained = Gaussian(0.25)
    assert RoundedGaussian(0.25).suits(trained)
    assert GaussianLinf(0.25, 3072).suits(trained)
    assert not RoundedGaussian(0.5).suits(trained)
    assert not Uniform(1.0).suits(trained)
    assert Uniform(1.0).suits(Uniform(1.0))
