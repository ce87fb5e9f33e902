"""What a service says of itself: the ensembles it serves, plans, verifications, its version."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from smoothcert.certification import Whole, Wire
from smoothcert.noise import AnyNoise
from smoothcert.request import Voting


class EnsembleCard(Wire):
    """An ensemble as a worker publishes it."""

    name: str
    digest: str
    members: Annotated[tuple[str, ...], Field(min_length=1)]
    """sha256 of each member, best first."""
    classes: tuple[str, ...]
    input_shape: tuple[int, int, int]
    """Channels, height, width."""
    noise: AnyNoise | None
    """The noise that it was trained for; null where that is unknown."""
    voting: Voting
    """The rule where a request names none."""
    votings: tuple[Voting, ...]
    """The rules that a request may name."""
    procedures: tuple[str, ...]
    """The names of the procedures that a request may ask for."""


class ServedEnsemble(EnsembleCard):
    """An ensemble as the service offers it."""

    ready: bool
    """Whether a live worker holds it now; requests to one that is not ready wait."""
    workers: Whole
    devices: tuple[str, ...]
    evaluations_per_second: float | None
    """As measured while busy; null before that."""


class EnsembleList(Wire):
    """All that are served."""

    data: tuple[ServedEnsemble, ...]


class LookPlan(Wire):
    """At `n` samples: certify at this count or more, abandon at that one or less (-1: never)."""

    n: Whole
    certify_at: int
    abandon_at: int


class Expectation(Wire):
    """What happens to an image whose class has probability `p_a`."""

    p_a: float
    certify: float
    abandon: float
    samples: float


class Seconds(Wire):
    """How long it takes for one image alone, by the rate that the workers measured."""

    best: float | None
    worst: float


class PlanAnswer(Wire):
    """What a request could prove, and what it would cost; exact, not simulated."""

    feasible: bool
    reason: str
    radius: float
    p0: float
    """The least p_A that proves the radius."""
    largest_radius: float
    samples_needed: Whole | None
    """The last stage that it would take; null where no number of samples would do."""
    fewest_samples: Whole | None
    most_samples: Whole
    seconds: Seconds | None
    """Null before any worker has measured its rate."""
    boundaries: tuple[LookPlan, ...]
    expected: tuple[Expectation, ...]


class FieldProblem(Wire):
    """A field of a certificate that does not follow from its counts."""

    field: str
    message: str


class VerificationAnswer(Wire):
    """Whether everything in a certificate follows from its counts."""

    consistent: bool
    problems: tuple[FieldProblem, ...]


class Version(Wire):
    """What is running."""

    smoothcert: str
    api: str
    certificate: str


class Health(Wire):
    """This process answers."""

    status: Literal["ok"]


class Readiness(Wire):
    """Redis answers and workers are alive."""

    status: Literal["ready"]
    workers: Whole
