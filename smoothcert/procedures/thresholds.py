"""The least count whose lower bound proves a radius, the greatest whose upper bound rules it out."""

from __future__ import annotations

from bisect import bisect_left

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.noise import Noise


def proves(noise: Noise, p_lower: float, radius: float) -> bool:
    """Whether p_A >= p_lower implies robustness at the radius."""
    return p_lower > 0.5 and noise.radius(p_lower) >= radius


def rules_out(noise: Noise, p_upper: float, radius: float) -> bool:
    """Whether p_A <= p_upper leaves no hope of showing the radius."""
    return noise.radius(p_upper) < radius


def least_certifying(noise: Noise, radius: float, n: int, alpha: float) -> int:
    """The least count among n that proves the radius; n + 1 if none does."""
    return bisect_left(range(n + 1), True, key=lambda k: proves(noise, lower_bound(k, n, alpha), radius))


def greatest_abandoning(noise: Noise, radius: float, n: int, beta: float) -> int:
    """The greatest count among n that rules the radius out; -1 if none does."""
    return bisect_left(range(n + 1), True, key=lambda k: not rules_out(noise, upper_bound(k, n, beta), radius)) - 1
