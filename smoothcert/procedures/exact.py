"""Every outcome of a noise that has few of them: a certificate without chance, and without alpha."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from smoothcert.boundaries import Boundaries, Outcome
from smoothcert.errors import DomainError
from smoothcert.noise import Noise
from smoothcert.procedures.one_look import OneLook
from smoothcert.procedures.protocol import Procedure, draw, top_class
from smoothcert.verdict import Stage, Verdict

MOST_OUTCOMES = 5100
"""The outcomes of the widest splitting noise."""


def certify_exactly(noise: Noise) -> Procedure:
    """The smoothed class and the largest radius that all outcomes of the noise prove."""
    if noise.outcomes is None:
        raise DomainError(f"the exact procedure evaluates all outcomes of a noise, and {noise.name} noise is random")
    return _certify_exactly(noise, noise.outcomes)


def _certify_exactly(noise: Noise, outcomes: int) -> Procedure:
    counts = yield from draw(outcomes)
    if top_class(counts) is None:
        stage = Stage(counts, outcomes, 0, "exhausted")
        return Verdict(None, 0.0, None, outcomes, "no-class", (stage,), ())
    c_a, radius = noise.proved(counts)
    share = counts[c_a] / outcomes
    if radius < 0:  # more outcomes have no class than have the best one
        stage = Stage(counts, outcomes, counts[c_a], "exhausted", share, share)
        return Verdict(None, 0.0, share, outcomes, "exhausted", (stage,), ())
    stage = Stage(counts, outcomes, counts[c_a], "certified", share, share)
    return Verdict(c_a, radius, share, outcomes, "certified", (stage,), ())


class AllOutcomes(Boundaries):
    """One look at all outcomes, whose shares are what they are: nothing is left to chance."""

    def outcome(self, p: float) -> Outcome:
        (outcomes,), (certify_at,) = self.looks, self.certify
        return Outcome(certify=float(p * outcomes >= certify_at), abandon=0.0, samples=float(outcomes))


class Exact(OneLook):
    """`certify_exactly` by name."""

    budget: ClassVar[str] = ""
    exhaustive: ClassVar[bool] = True
    title: ClassVar[str] = "Exact"
    summary: ClassVar[str] = "Evaluates every outcome of the noise: what it proves is certain."

    name: Literal["exact"] = "exact"
    n0: Annotated[int, Field(strict=True, ge=0, le=0)] = 0
    """There is no selection: the class is read off all outcomes."""

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses no target radius, no alpha and no beta."""
        return certify_exactly(noise)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The number of outcomes of one class that proves this radius whatever the others are."""
        outcomes = noise.outcomes or MOST_OUTCOMES
        certify_at = round(noise.probability(radius) * outcomes)
        return AllOutcomes(np.array([outcomes]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        """For the noise with the most outcomes; a `Question` knows the number for its own."""
        return MOST_OUTCOMES

    def samples_needed(self, noise: Noise, radius: float, *, alpha: float) -> int | None:
        return noise.outcomes if radius <= self.largest_radius(noise, alpha=alpha) else None

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """For the class of the lowest index, which wins every tie."""
        return noise.proved((noise.outcomes or 0, 0))[1]
