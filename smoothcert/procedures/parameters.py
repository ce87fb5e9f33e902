"""A procedure by name, with its own parameters, as a request or a certificate states it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.errors import MOST
from smoothcert.noise import Noise
from smoothcert.procedures.protocol import Procedure

WholeNumber = Annotated[int, Field(strict=True, ge=1, le=MOST)]

N0 = 100
"""Samples that choose the class, in every procedure."""


class Parameters(BaseModel, ABC):
    """What a procedure must say of itself; read-only, and nothing unknown is let through."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    n0: WholeNumber = N0

    limit: ClassVar[int] = MOST
    """The largest number of samples that a look may rest on."""

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
