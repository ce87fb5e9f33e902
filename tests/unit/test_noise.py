"""A noise turns a probability into a radius and back."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import certify_adaptive, certify_sequential, run
from tests.support.blur import Blur

sigmas = st.floats(0.01, 10)
probabilities = st.floats(1e-9, 1 - 1e-9)


@given(sigmas, probabilities)
def test_the_radius_is_sigma_times_the_normal_quantile(sigma: float, p: float) -> None:
    assert Gaussian(sigma).radius(p) == pytest.approx(sigma * NormalDist().inv_cdf(p), rel=1e-7, abs=1e-9)


@given(sigmas, st.floats(0, 5))
def test_probability_inverts_radius(sigma: float, ratio: float) -> None:
    noise = Gaussian(sigma)
    assert noise.radius(noise.probability(ratio * sigma)) == pytest.approx(ratio * sigma, rel=1e-6, abs=1e-9)


@given(sigmas, probabilities, probabilities)
def test_the_radius_rises_with_p(sigma: float, p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert Gaussian(sigma).radius(low) <= Gaussian(sigma).radius(high)


def test_the_edges_are_infinite_and_one_half_is_zero() -> None:
    noise = Gaussian(0.25)
    assert noise.radius(0.0) == -math.inf
    assert noise.radius(1.0) == math.inf
    assert noise.radius(0.5) == 0.0
    assert noise.probability(0.0) == 0.5


@pytest.mark.parametrize("sigma", [0.0, -0.25, math.nan, math.inf, None, "1", True])
def test_sigma_must_be_positive_and_finite(sigma: Any) -> None:
    with pytest.raises(DomainError, match=str(sigma)):
        Gaussian(sigma)


@pytest.mark.parametrize("radius", [-0.1, math.nan, math.inf])
def test_a_radius_must_not_be_negative(radius: float) -> None:
    with pytest.raises(DomainError, match=str(radius)):
        Gaussian(0.25).probability(radius)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_p_lower_must_be_a_probability(p: float) -> None:
    with pytest.raises(DomainError, match=str(p)):
        Gaussian(0.25).radius(p)


def test_another_noise_is_one_more_class() -> None:
    noise: Noise = Blur(1.0)
    rng = np.random.default_rng(1)

    def sample(n: int) -> np.ndarray:
        return rng.multinomial(n, [0.02, 0.98, 0.0])

    assert run(certify_adaptive(noise, 0.9), sample).top_class == 1
    verdict = run(certify_sequential(noise, 0.9), sample)
    assert (verdict.top_class, verdict.radius, verdict.p_lower) == (1, 0.9, 0.95)
