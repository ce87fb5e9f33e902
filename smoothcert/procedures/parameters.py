"""A procedure by name, with its own parameters, as a request or a certificate states it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import fewest_to_prove, unanimous_bound
from smoothcert.errors import MOST, DomainError, refuse_unknown
from smoothcert.frozen import Frozen
from smoothcert.noise import Noise
from smoothcert.procedures.protocol import Procedure

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate

WholeNumber = Annotated[int, Field(strict=True, ge=1, le=MOST)]

N0 = 100
"""The number of samples that choose the class, by default, as in Cohen et al."""
QUICK_SAMPLES = 200_000
"""The number of samples up to which the boundaries of a sequential test take less than a second to compute."""


class Parameters(Frozen, ABC):
    """What a procedure says of itself: to the planner, the API, the store, the workers and the page.

    A subclass has the field `name`, a Literal with the name by which JSON knows it. A kind can be
    chosen on the page if its variants set every field that has no default (see `published.ProcedureCard`); the words
    for it are the class variables below.
    """

    name: str
    n0: WholeNumber = N0
    """The samples that choose the class."""

    budget: ClassVar[str]
    """The field that says how many samples may be drawn; empty where the noise decides it."""
    exhaustive: ClassVar[bool] = False
    """Whether it evaluates all outcomes of a noise, so that alpha and beta mean nothing to it."""
    predicts: ClassVar[bool] = False
    """Whether it finds the class at the image itself and proves no radius."""
    exceeds_target: ClassVar[bool] = True
    """Whether the proved radius may be larger than the target."""
    rivals: ClassVar[bool] = True
    """Whether a decision may depend on classes that never lead; if not, certificates count most of those together."""
    numbered: ClassVar[bool] = False
    """Whether it knows classes by their numbers, and not only by the counts that it is sent."""
    local: ClassVar[bool] = False
    """Whether it needs more than a request carries, so that a service does not take it."""
    own: ClassVar[tuple[str, ...]] = ()
    """The fields that differ between the images of one question."""
    hierarchical: ClassVar[bool] = False
    """Whether it needs superclasses, which an ensemble may declare."""
    limit: ClassVar[int] = MOST
    """The largest number of samples that a look may rest on."""

    title: ClassVar[str] = ""
    """Its name as a heading; the capitalised `name` where this is empty."""
    summary: ClassVar[str] = ""
    """What it does, in one sentence; the first line of the class's docstring where this is empty."""
    budget_label: ClassVar[str] = "Samples"
    """The label of the input for the budget."""
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """The parameters that each choice on a form sets. Together with `label` they tell the choices apart."""
    recommended: ClassVar[bool] = False
    """Whether a form offers it before the others."""

    def __new__(cls, **named: object) -> Self:
        """Refuse unknown keywords before pydantic does, which names no field that may have been meant."""
        refuse_unknown(named, cls.model_fields)
        return super().__new__(cls)

    @property
    def label(self) -> str:
        """The procedure for people, for example "sequential, strict"; its name, unless it has variants."""
        return self.name

    @property
    def targeted(self) -> bool:
        """Whether it is asked to prove a given radius; otherwise it proves the largest that it can."""
        return True

    @property
    def abandoning(self) -> str | None:
        """What abandoning a run promises or means, as a sentence; None where a run is never abandoned."""
        return "If p_A is large enough for the radius, a run is abandoned with probability at most beta."

    def target(self, radius: float | None) -> float:
        """The radius to prove; DomainError where it is missing."""
        if radius is None:
            raise DomainError(f"the {self.name} procedure needs a target radius")
        return radius

    def targets(self, radius: float | None) -> tuple[float, ...]:
        """The radii to prove, in increasing order; none for a procedure that proves the largest it can."""
        return (self.target(radius),) if self.targeted else ()

    def least_target(self, radius: float | None) -> float:
        """The radius that a plan is about: the one to prove, or the least that the procedure may prove."""
        return self.target(radius) if self.targeted else radius or 0.0

    def unrounded(self, radius: float, target: float | None) -> float:
        """The proved radius before it was rounded down, for a procedure that does not exceed its target."""
        return target or 0.0

    def require_levels(self, *, alpha: float, beta: float) -> None:
        """Raise DomainError for an alpha or beta that this procedure cannot have."""

    def class_name(self, index: int) -> str | None:
        """The name of a class that the procedure has beside those of the ensemble; None for one of the ensemble."""
        return None

    def remark(self, index: int | None) -> str | None:
        """What should be known beside the claim for this class, in a sentence or two; None where nothing is."""
        return None

    def fitted(self, classes: Sequence[str], superclasses: Sequence[Sequence[Any]]) -> Self:
        """The procedure with everything filled in that it leaves to the ensemble, which has these classes and
        superclasses.

        DomainError if it does not go with the ensemble.
        """
        return self

    def objections(self, certificate: Certificate) -> Iterator[str]:
        """What is wrong with the parameters of this certificate beyond its counts, each as a sentence."""
        yield from ()

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
    @abstractmethod
    def look_count(self) -> int:
        """The largest number of looks at the counts, found without computing the boundaries."""

    @property
    def pooled(self) -> bool:
        """Whether a look counts all samples of the estimation so far; otherwise it counts those of its own stage."""
        return True

    @property
    def last_look(self) -> int:
        """The samples that the last decision rests on."""
        return self.most_samples

    def look_text(self, samples: int) -> str:
        """The samples of the last look, in words."""
        return f"{samples:,} samples" if self.pooled else f"a last stage of {samples:,} samples"

    def last_alpha(self, alpha: float) -> float:
        """The share of alpha that the last look may spend."""
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

    def interval_alpha(self, alpha: float) -> float:
        """The level of each end of the interval for p_A that is shown at a look.

        By Bonferroni the lower ends of all looks hold together with probability at least 1 - alpha, and so do the
        upper ends.
        """
        return alpha / self.look_count

    def samples_needed(self, noise: Noise, radius: float, *, alpha: float) -> int | None:
        """The least size of the last look that can prove the radius, even beyond `limit`; None if no size can."""
        return fewest_to_prove(noise.probability(radius), self.last_alpha(alpha))

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """The radius that is proved if every sample falls on one class: nothing larger is within reach."""
        return noise.radius(unanimous_bound(self.last_look, self.last_alpha(alpha)))

    def reach(self, noise: Noise, *, alpha: float) -> float:
        """The largest radius that could be asked for; more than `largest_radius` where only certain ones are."""
        return self.largest_radius(noise, alpha=alpha)
