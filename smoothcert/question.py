"""The question that is asked about every image of a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Annotated

from pydantic import Field

from smoothcert.errors import DomainError, require_count, require_level
from smoothcert.frozen import Frozen
from smoothcert.noise import Noise, resolve
from smoothcert.procedures import Procedure
from smoothcert.procedures.parameters import Parameters, WholeNumber
from smoothcert.request import CertificationRequest

ALPHA = 0.001
"""The chance of a false certificate of one image, by default."""


class FamilyWise(Frozen):
    """alpha shared among the images of one request (Bonferroni): each image gets alpha / images."""

    alpha: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    images: WholeNumber


@dataclass(frozen=True)
class Question:
    """Which procedure is to prove what, under which noise, how surely."""

    noise: Noise
    procedure: Parameters
    radius: float | None = None
    """The radius to prove; None for a procedure that proves the largest it can."""
    alpha: float = ALPHA
    """The chance of a false certificate of one image."""
    beta: float = 0.001
    """The chance of giving up too early."""
    family_wise: FamilyWise | None = None

    def __post_init__(self) -> None:
        for name in ("radius", "alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, Real) and not isinstance(value, bool):  # numpy's numbers are written in another way
                object.__setattr__(self, name, float(value))

    @classmethod
    def of(cls, request: CertificationRequest, *, images: int) -> Question:
        """The question that a request puts to each of its images; its noise must be known."""
        noise = request.noise or resolve(sigma=request.sigma)
        if noise is None:
            raise DomainError("noise must be given: the request leaves it open")
        question = cls(noise, request.procedure, request.radius, request.alpha, request.beta)
        return question.shared_by(images) if request.family_wise else question

    def shared_by(self, images: int) -> Question:
        """The question with alpha divided among the images, so that it bounds the chance of any false certificate."""
        require_level("alpha", self.alpha)
        require_count("images", images)
        return replace(self, alpha=self.alpha / images, family_wise=FamilyWise(alpha=self.alpha, images=images))

    def start(self) -> Procedure:
        """The procedure, ready to run; DomainError where the question makes no sense."""
        self.require_fitting()
        if self.radius is not None:
            self.noise.require_radius(self.radius)
        return self.procedure.start(self.noise, self.radius, alpha=self.alpha, beta=self.beta)

    def require_fitting(self) -> None:
        """Raise DomainError for a procedure that cannot count the outcomes of the noise, or count on its chance."""
        if self.noise.outcomes is not None and not self.procedure.exhaustive:
            raise DomainError(
                f"the {self.procedure.name} procedure draws random samples, and {self.noise.name} noise has "
                f"{self.noise.outcomes} outcomes that are all evaluated: ask for the procedure exact"
            )
        if self.noise.outcomes is None and self.procedure.exhaustive:
            raise DomainError(
                f"the {self.procedure.name} procedure evaluates all outcomes of a noise, and {self.noise.name} noise "
                "is random: ask for another procedure, or for splitting noise"
            )

    @property
    def most_samples(self) -> int:
        """The samples of one image in the worst case, those of the selection included."""
        return self.noise.outcomes or self.procedure.n0 + self.procedure.most_samples

    @property
    def largest_radius(self) -> float:
        """The largest radius that can ever be proved; not above zero where none can."""
        return self.procedure.largest_radius(self.noise, alpha=self.alpha)

    @property
    def reach(self) -> float:
        """The largest radius that could be asked for; not above zero where none can be proved."""
        return self.procedure.reach(self.noise, alpha=self.alpha)

    @property
    def beyond_reach(self) -> float | None:
        """The least of the radii to prove that can never be proved; None if each of them can."""
        if not (targets := self.procedure.targets(self.radius)):
            return None
        reach = self.reach
        return next((target for target in targets if not 0 < reach >= target), None)
