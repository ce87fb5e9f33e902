"""A procedure by name, with its own parameters, as a request or a certificate states it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.errors import MOST, DomainError
from smoothcert.frozen import Frozen
from smoothcert.noise import Noise
from smoothcert.procedures.protocol import Procedure

WholeNumber = Annotated[int, Field(strict=True, ge=1, le=MOST)]

N0 = 100
"""The samples that choose the class, by default."""
QUICK_SAMPLES = 200_000
"""Boundaries of a sequential test of this many samples are computed in less than a second."""


class Parameters(Frozen, ABC):
    """What a procedure says of itself: to the planner, the API, the store, the workers and the page.

    A subclass has the field `name`, a Literal with the name by which JSON knows it.
    """

    name: str
    n0: WholeNumber = N0
    """The samples that choose the class."""

    budget: ClassVar[str]
    """The field that says how many samples may be drawn."""
    targeted: ClassVar[bool] = True
    """Whether it is asked to prove a given radius; otherwise it proves the largest that it can."""
    exceeds_target: ClassVar[bool] = True
    """Whether what it proves may be larger than what was asked."""
    limit: ClassVar[int] = MOST
    """The largest number of samples that a look may rest on."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The procedure for people, for example "sequential, strict"."""

    def target(self, radius: float | None) -> float:
        """The radius to prove, which must be given."""
        if radius is None:
            raise DomainError(f"the {self.name} procedure needs a target radius")
        return radius

    @abstractmethod
    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run."""

    @abstractmethod
    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The counts at which each look certifies the radius or abandons it."""

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """Samples of the estimation in the worst case."""

    @property
    def pooled(self) -> bool:
        """Whether a look counts all samples of the estimation so far, or those of its own stage alone."""
        return True

    @property
    def last_look(self) -> int:
        """The samples that the last decision rests on."""
        return self.most_samples

    def last_alpha(self, alpha: float) -> float:
        """The error that the last look may spend."""
        return alpha

    def least_beta(self, beta: float) -> float:
        """The smallest share of beta that any look gets."""
        return beta

    @property
    def boundary_samples(self) -> int:
        """The samples for which boundaries must be computed before the first is drawn; 0 if that takes no time."""
        return 0

    @property
    def slow_to_begin(self) -> bool:
        """Whether a start takes more than about a second."""
        return self.boundary_samples > QUICK_SAMPLES

    def interval_alpha(self, alpha: float, looks: int) -> float:
        """The level of each end of an interval for p_A that is shown at a look.

        It is such that the intervals of all `looks` hold together: each end with probability 1 - alpha.
        """
        return alpha / max(1, looks)

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """What the procedure proves if every sample falls on one class: nothing larger is within its reach."""
        return noise.radius(lower_bound(self.last_look, self.last_look, self.last_alpha(alpha)))
