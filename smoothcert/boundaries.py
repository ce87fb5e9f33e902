"""Boundaries: the counts at which a procedure certifies or abandons, and what follows exactly for every p_A."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, inf

import numpy as np
import numpy.typing as npt

from smoothcert.binomial import NOTHING_DRAWN, binomial
from smoothcert.errors import DomainError

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """The behaviour of a procedure if the chosen class has probability p: exact, not simulated."""

    certify: float
    abandon: float
    samples: float
    """The expected samples of the estimation, without the n0 of the selection."""
    radius: float | None = None
    """The expected radius, where different runs may prove different ones."""


@dataclass(frozen=True, eq=False)
class Boundaries:
    """At look j: certify if the count is at least `certify[j]`, abandon if it is at most `abandon[j]`.

    `looks[j]` is the number of samples that the count at look j is taken over: all drawn so far if `pooled`, those of
    the stage alone if not. `certify[j] = looks[j] + 1` and `abandon[j] = -1` mean never.
    """

    looks: Integers
    certify: Integers
    abandon: Integers
    pooled: bool = field(default=True, kw_only=True)
    worth: float = field(default=inf, kw_only=True)
    """The expected worth of a run beyond its cost, in samples; infinite where a certificate has no price."""

    def __post_init__(self) -> None:
        for name in ("looks", "certify", "abandon"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if not len(self.looks) == len(self.certify) == len(self.abandon) > 0:
            lengths = f"{len(self.looks)}, {len(self.certify)} and {len(self.abandon)}"
            raise DomainError(f"looks, certify and abandon must have one entry for each look, got {lengths} entries")

    @property
    def steps(self) -> Integers:
        """The number of samples drawn for each look."""
        return np.diff(self.looks, prepend=0) if self.pooled else self.looks

    @property
    def feasible(self) -> bool:
        """Whether any count at any look certifies."""
        return bool(self.certifying.any())

    @property
    def certifying(self) -> npt.NDArray[np.bool_]:
        """Whether a run may end with a certificate at each look."""
        return self.certify <= self.looks

    def outcome(self, p: float) -> Outcome:
        """P(certify), P(abandon) and the expected samples if each sample succeeds with probability p in [0, 1]."""
        if not 0.0 <= p <= 1.0:
            raise DomainError(f"p_A must lie between 0 and 1, got {p!r}")
        return self._pooled_outcome(p) if self.pooled else self._fresh_outcome(p)

    def _pooled_outcome(self, p: float) -> Outcome:
        # `alive` is the distribution of the count over the paths that no look has stopped. Each look draws its samples
        # for those paths, takes the two tails that stop here, and goes on with what is between the boundaries.
        alive = NOTHING_DRAWN
        certified, abandoned, samples = [0.0], [0.0], [0.0]
        for step, certify, abandon in zip(self.steps, self.certify, self.abandon, strict=True):
            samples.append(int(step) * alive.total)
            at_look = alive.plus(int(step), p)
            certified.append(at_look.upper_tail(int(certify)))
            abandoned.append(at_look.lower_tail(int(abandon)))
            alive = at_look.above(int(abandon)).below(int(certify)).without_dust()
            if not len(alive.mass):
                break
        return Outcome(min(1.0, fsum(certified)), min(1.0, fsum(abandoned)), fsum(samples))

    def _fresh_outcome(self, p: float) -> Outcome:
        # The counts of the stages are independent, so only the probability of reaching a stage is carried along.
        alive, certified, abandoned, samples = 1.0, 0.0, 0.0, 0.0
        for n, certify, abandon in zip(self.looks, self.certify, self.abandon, strict=True):
            count = binomial(int(n), p)
            samples += int(n) * alive
            certified += alive * count.upper_tail(int(certify))
            abandoned += alive * count.lower_tail(int(abandon))
            alive *= count.above(int(abandon)).below(int(certify)).total
        return Outcome(min(1.0, certified), min(1.0, abandoned), samples)
