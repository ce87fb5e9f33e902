"""A procedure by name, with its own parameters, as a request or a certificate states it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.errors import MOST, DomainError
from smoothcert.noise import Noise
from smoothcert.procedures.protocol import Procedure

WholeNumber = Annotated[int, Field(strict=True, ge=1, le=MOST)]

N0 = 100
"""Samples that choose the class, in every procedure."""


class Parameters(BaseModel, ABC):
    """What a procedure must say of itself; read-only, and nothing unknown is let through."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    n0: WholeNumber = N0

    targeted: ClassVar[bool] = True
    """Whether it is asked to prove a radius; if not, it proves the largest that it can."""
    exceeds_target: ClassVar[bool] = True
    """Whether what it proves may be larger than what was asked."""
    limit: ClassVar[int] = MOST
    """The largest number of samples that a look may rest on."""

    def target(self, radius: float | None) -> float:
        """The radius to prove, which must be given."""
        if radius is None:
            raise DomainError(f"the {type(self).__name__.lower()} procedure needs a target radius")
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

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """What the procedure proves if every sample falls on one class: nothing larger is within its reach."""
        return noise.radius(lower_bound(self.last_look, self.last_look, self.last_alpha(alpha)))
