"""What a procedure can prove and what it costs, known before any sample is drawn. Exact, not simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from smoothcert.boundaries import Boundaries, Outcome
from smoothcert.errors import DomainError, require_count, require_level, require_radius
from smoothcert.figures import radius_text
from smoothcert.noise import Noise
from smoothcert.procedures import AnyProcedure
from smoothcert.verdict import floor_radius


@dataclass(frozen=True)
class Plan:
    """Whether a procedure can prove a radius at all, and at what cost."""

    procedure: AnyProcedure
    radius: float
    p0: float
    """The least p_A that proves the radius."""
    feasible: bool
    reason: str
    """One sentence: why the radius is feasible, or why it is not and what would make it so."""
    largest_radius: float
    """The largest radius that the procedure can ever prove, floored to six decimals."""
    supremum: float | None
    """No number of samples proves this radius or a larger one; None if the noise sets no such end."""
    samples_needed: int | None
    """The least size of the last stage that brings the radius within reach; None if no size does.

    It may be more than the procedure's `limit`.
    """
    fewest_samples: int | None
    """The fewest samples with which a run may prove the radius; the selection included. None if infeasible.

    Most procedures end soonest if all samples fall on one class; `largest` then goes on for a larger radius.
    """
    most_samples: int
    """The samples in the worst case; the selection included."""
    boundaries: Boundaries | None
    """None if the radius needs more samples than the procedure may have."""

    def expected(self, p_a: float) -> Outcome:
        """P(certify), P(abandon) and the expected samples, the selection included, if the class has p_A.

        Runs that do not prove the radius count, too: they are abandoned, or `largest` ends with a smaller radius. So
        where p_A is too low, fewer samples than `fewest_samples` are expected.
        """
        if self.boundaries is None:
            raise DomainError(f"there is no test of radius {self.radius!r}: it needs p_A = {self.p0!r}")
        outcome = self.boundaries.outcome(p_a)
        return replace(outcome, samples=outcome.samples + self.procedure.n0)

    def rows(self, samples: float, rows: int) -> float:
        """The rows that go through each network until this many samples are drawn, in slices of `rows`.

        A look waits for its samples, so those of a single image often fill a part of a slice only.
        """
        steps = [] if self.boundaries is None else self.boundaries.steps.tolist()
        drawn = list(accumulate([self.procedure.n0, *steps], initial=0))
        padded = list(accumulate((-(-step // rows) * rows for step in (self.procedure.n0, *steps)), initial=0))
        return float(np.interp(samples, drawn, padded))


def plan(
    procedure: AnyProcedure,
    noise: Noise,
    radius: float,
    *,
    alpha: float = 0.001,
    beta: float = 0.001,
) -> Plan:
    """The plan for proving `radius` with this procedure.

    For a procedure that is given no radius it is about the least one that it may prove, and `radius` may be 0.
    """
    require_radius(radius)
    radius = procedure.least_target(radius)
    require_level("alpha", alpha)
    require_level("beta", beta)
    p0 = noise.probability(radius)
    needed = procedure.samples_needed(noise, radius, alpha=alpha)
    largest = floor_radius(max(0.0, procedure.largest_radius(noise, alpha=alpha)))
    within = needed is not None and needed <= procedure.limit
    boundaries = procedure.boundaries(noise, radius, alpha=alpha, beta=beta) if within else None
    possible = boundaries is not None and boundaries.feasible
    feasible = possible and boundaries is not None and boundaries.worth > 0
    return Plan(
        procedure=procedure,
        radius=radius,
        p0=p0,
        feasible=feasible,
        reason=(
            f"radius {radius:g} is proved if p_A is shown to be at least {p0:.6f}"
            if feasible
            else f"a certificate of radius {radius:g} is not worth its samples at this price; a higher price may be"
            if possible
            else beyond(procedure, noise, radius, largest, needed)
        ),
        largest_radius=largest,
        supremum=None if math.isinf(noise.supremum) else noise.supremum,
        samples_needed=needed,
        fewest_samples=_fewest(boundaries, procedure.n0) if boundaries and feasible else None,
        most_samples=noise.outcomes or procedure.n0 + procedure.most_samples,
        boundaries=boundaries,
    )


def beyond(procedure: AnyProcedure, noise: Noise, radius: float, largest: float, needed: int | None) -> str:
    """Why a radius cannot be proved, in a sentence; `needed` is the value of `samples_needed`."""
    most = f"radius {radius:g} is beyond the largest provable one, {radius_text(largest)}"
    return f"{most}; {remedy(procedure, noise, radius, needed)}"


def remedy(
    procedure: AnyProcedure, noise: Noise, radius: float, needed: int | None, *, allowed: int | None = None
) -> str:
    """What would bring a radius within reach, in words; `needed` is the value of `samples_needed`.

    `allowed` is what a service lets the last look have at most; it matters where that is less than `limit`.
    """
    if needed is None and radius >= noise.supremum:
        return "no number of samples would be enough"
    if needed is None:
        return "it needs a p_A so close to 1 that it is beyond what can be computed"
    takes = f"it would take {procedure.look_text(needed)}"
    if allowed is not None and needed > allowed and allowed < procedure.limit:
        return f"{takes}, more than the {allowed:,} that this service allows"
    if needed > procedure.limit:
        return f"{takes}, more than the {procedure.limit:,} that the {procedure.name} procedure may have"
    return takes


def _fewest(boundaries: Boundaries, n0: int) -> int:
    """The samples drawn up to the first look that may certify."""
    drawn = boundaries.steps.cumsum()
    return n0 + int(drawn[boundaries.certifying][0])


def last_stage(n: int, s: int, alpha: float) -> int:
    """n_s of Theorem 2(3): with it, s stages reach every radius that Certify reaches with n samples."""
    require_count("n", n)
    require_count("s", s)
    require_level("alpha", alpha)
    return math.ceil(n * (1 - math.log(s) / math.log(alpha)))


def recommended_stages(n: int = 100_000, *, s: int = 4, alpha: float = 0.001) -> tuple[int, ...]:
    """s stages that lose none of the radii of Certify with n samples: tenfold steps, the last by Theorem 2(3)."""
    final = last_stage(n, s, alpha)
    first = max(100, n // 10 ** (s - 1))
    ratio = (n / 10 / first) ** (1 / (s - 2)) if s > 2 else 1.0
    early = [round(first * ratio**i) for i in range(s - 1)]
    stages = [*early, final]
    if any(later <= earlier for earlier, later in pairwise(stages)):
        raise DomainError(f"{n} samples are too few for {s} stages: the stages must grow, and these would be {stages}")
    return tuple(stages)


def information_limit(p: float, p0: float, outcome: Outcome, *, alpha: float, beta: float) -> float:
    """A lower bound on the expected samples of every test with this power at p != p0 (Wald's inequality)."""
    if p == p0:
        raise DomainError(f"p must differ from p0: at p = p0 = {p0!r} there is nothing to tell apart")
    power, error = (outcome.certify, alpha) if p > p0 else (outcome.abandon, beta)
    return relative_entropy(power, error) / relative_entropy(p, p0)


def relative_entropy(a: float, b: float) -> float:
    """The relative entropy of Bernoulli(a) to Bernoulli(b) in nats, for a in [0, 1] and b in (0, 1)."""
    first = a * math.log(a / b) if a > 0 else 0.0
    second = (1 - a) * math.log((1 - a) / (1 - b)) if a < 1 else 0.0
    return first + second
