"""Certify (Cohen et al.; the paper's Algorithm 1): a fixed number of samples, the largest radius they prove."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.errors import require_count, require_level
from smoothcert.noise import Noise
from smoothcert.procedures.one_look import OneLook
from smoothcert.procedures.parameters import N0, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class, top_class
from smoothcert.procedures.thresholds import least_certifying
from smoothcert.verdict import Stage, Verdict

N = 100_000
"""The number of samples that bound p_A, by default, as in Cohen et al."""


def certify(noise: Noise, *, n0: int = N0, n: int = N, alpha: float = 0.001) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or its class is the smoothed one within its radius."""
    require_count("n0", n0)
    require_count("n", n)
    require_level("alpha", alpha)
    return _certify(noise, n0, n, alpha)


def _certify(noise: Noise, n0: int, n: int, alpha: float) -> Procedure:
    selection = yield from draw(n0)
    c_a = top_class(selection)
    if c_a is None:
        return no_class(selection)
    counts = yield from draw_more(n, selection)
    p_lower = lower_bound(counts[c_a], n, alpha)
    if not p_lower > 0.5:
        stage = Stage(counts, n, counts[c_a], "exhausted", p_lower)
        return Verdict(None, 0.0, p_lower, n0 + n, "exhausted", (stage,), selection)
    stage = Stage(counts, n, counts[c_a], "certified", p_lower)
    return Verdict(c_a, noise.radius(p_lower), p_lower, n0 + n, "certified", (stage,), selection)


class Fixed(OneLook):
    """`certify` by name, with its parameters."""

    budget: ClassVar[str] = "n"
    rivals: ClassVar[bool] = False
    title: ClassVar[str] = "Fixed"
    summary: ClassVar[str] = "Draws a fixed number of samples and proves the largest radius that they allow."

    name: Literal["fixed"] = "fixed"
    n: WholeNumber = N
    """The samples that bound p_A."""

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses neither a target radius nor beta."""
        return certify(noise, n0=self.n0, n=self.n, alpha=alpha)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The count from which all n samples prove this radius; it never abandons."""
        certify_at = least_certifying(noise, radius, self.n, alpha)
        return Boundaries(np.array([self.n]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        return self.n
