"""The distribution of the radius that Certify proves if class A has the probability p: exact, by the binomial."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from smoothcert.binomial import binomial
from smoothcert.bounds import ALMOST_ONE
from smoothcert.noise import Noise

Floats = npt.NDArray[np.float64]


def radius_distribution(p: float, n: int, *, noise: Noise, alpha: float) -> tuple[Floats, Floats]:
    """The possible radii, in increasing order, and their probabilities; 0 stands for an abstention."""
    counts = binomial(n, p)
    radii, places = np.unique(
        certified_radii(counts.start, counts.start + len(counts.mass), n, noise, alpha), return_inverse=True
    )
    mass: Floats = np.bincount(places, weights=counts.mass)  # type: ignore[assignment]  # floats, with weights
    return radii, mass


def expected_radius(p: float, n: int, *, noise: Noise, alpha: float) -> float:
    """The mean of the radius, with 0 for an abstention."""
    radii, mass = radius_distribution(p, n, noise=noise, alpha=alpha)
    return float(radii @ mass)


@lru_cache(maxsize=4096)
def certified_radii(first: int, stop: int, n: int, noise: Noise, alpha: float) -> Floats:
    """The radius that each count first, ..., stop - 1 among n proves; 0 where it proves none."""
    counts = np.arange(first, stop, dtype=float)
    # betaincinv is not defined for a first argument of 0, where the bound is 0
    p_lower = np.where(counts == 0, 0.0, betaincinv(np.maximum(counts, 1), n - counts + 1, alpha))
    p_lower = np.minimum(p_lower, ALMOST_ONE)
    return np.array([noise.radius(p) if p > 0.5 else 0.0 for p in p_lower.tolist()])
