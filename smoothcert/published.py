"""What a service publishes: its ensembles, plans, verifications, its version and its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from smoothcert.certification import Look, Whole, Wire
from smoothcert.implication import Implication
from smoothcert.noise import AnyNoise
from smoothcert.procedures import Superclass
from smoothcert.remainder import Remainder
from smoothcert.request import Voting


class EnsembleCard(Wire):
    """An ensemble as a worker publishes it."""

    name: str
    digest: str
    members: Annotated[tuple[str, ...], Field(min_length=1)]
    """Digest of each member, best first: the sha256 of its file, or one over a denoiser and its classifier."""
    architectures: tuple[str, ...] = ()
    """The architecture of each member, like `cifar-resnet20`, or `dncnn-half-8x48 > cifar-resnet20` for a classifier
    behind a denoiser. Empty where a worker of an older version publishes the ensemble."""
    classes: tuple[str, ...]
    input_shape: tuple[int, int, int]
    """Channels, height, width."""
    noise: AnyNoise | None
    """The noise that it was trained for; null where that is unknown."""
    voting: Voting
    """The voting rule of requests that name none."""
    votings: tuple[Voting, ...]
    """The voting rules that a request may name."""
    superclasses: tuple[tuple[Superclass, ...], ...] = ()
    """Levels of superclasses that its owner declares, from fine to coarse, for the procedure `hierarchy`."""
    procedures: tuple[str, ...]
    """The names of the procedures that a request may choose."""


class ServedEnsemble(EnsembleCard):
    """An ensemble as the service offers it."""

    default: bool = False
    """Whether it is the ensemble of requests that name none, where several are served."""
    ready: bool
    """Whether a live worker holds it now; requests wait until one does."""
    workers: Whole
    devices: tuple[str, ...]
    noises: tuple[dict[str, Any], ...] = ()
    """The noises that a request may name without `allow_noise_mismatch`, that of the training first.

    They are not parsed, because a client may not know all of them.
    """
    evaluations_per_second: float | None
    """As the workers measured it when they loaded the ensemble and in the batches since, padded rows included."""


class FailedEnsemble(Wire):
    """An ensemble that live workers were to hold, and could not load."""

    name: str
    reason: str
    """What was wrong, in a sentence; the log of the worker says it, too."""
    workers: Whole
    """The number of workers that could not load it."""


class EnsembleList(Wire):
    data: tuple[ServedEnsemble, ...]
    failed: tuple[FailedEnsemble, ...] = ()
    """The ensembles that could not be loaded; their workers serve the others."""


def without_a_name(known: Sequence[ServedEnsemble]) -> list[ServedEnsemble]:
    """What a request that names no ensemble may get: one, unless the service would refuse it."""
    served = [each for each in known if each.ready] or [*known]
    if len(served) > 1:
        served = [each for each in known if each.default] or served
    return served


class LookPlan(Wire):
    """At `n` samples: certify at `certify_at` or more, abandon at `abandon_at` or less (-1: never)."""

    n: Whole
    certify_at: int
    abandon_at: int


class Expectation(Wire):
    """What happens to an image whose class has probability `p_a`."""

    p_a: float
    certify: float
    abandon: float
    samples: float
    radius: float | None = None
    """The expected radius, where different runs may prove different ones; null elsewhere."""


class Seconds(Wire):
    """How long one image takes alone, by the rate that the workers measured."""

    best: float | None
    expected: float | None = None
    """For a clear image, whose p_A is nine tenths of the way from the least one that proves the radius to 1; null where
    the radius is out of reach."""
    worst: float
    together: float | None = None
    """For all `image_count` images of the request if they are clear, on one worker; null where `expected` is."""


class PlanAnswer(Wire):
    """What a request could prove, and what it would cost; exact, not simulated."""

    alpha: float
    """The alpha of one image: a share of the request's where that is family-wise."""
    pooled: bool
    """Whether a look counts all samples of the estimation so far; otherwise it counts those of its own stage."""
    look_count: Whole
    """The largest number of looks at the counts of one image."""
    feasible: bool
    reason: str
    radius: float
    p0: float
    """The least p_A that proves the radius."""
    largest_radius: float
    supremum: float | None = None
    """No number of samples proves this radius or a larger one; null where the noise sets no such end."""
    samples_needed: Whole | None
    """The samples that the last look would need; null where no number of samples would do, or where it cannot be
    computed because p0 cannot be told from 1."""
    samples_allowed: Whole | None = None
    """The most samples that the service lets the last look have, for a request of `image_count` images."""
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
    looks: tuple[Look, ...]
    """One for each stage of a consistent certificate, with its interval for p_A; none for an inconsistent one."""
    implied: tuple[Implication, ...] = ()
    """What a consistent certificate says in the norms in which it is not stated, by geometry."""
    remainder: Remainder | None = None
    """What the samples of an abstention still prove; null for a certificate."""


class ExaminedAspect(Wire):
    """The answer to one question about a file, in words."""

    holds: bool | None
    """Null if this cannot be decided."""
    sentence: str


class ExaminationAnswer(Wire):
    """What can be told about a file with certificates: who signed it, is it unaltered, do its claims follow?"""

    certificates: Whole
    consistent: bool
    """Whether nothing is wrong."""
    signed: ExaminedAspect
    unaltered: ExaminedAspect
    follows: ExaminedAspect
    claims: tuple[str, ...]
    """What the certificates without a problem claim, in words; at most twenty of them."""
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    """What is not wrong but should be known."""


class Version(Wire):
    """The versions of the package, of this interface and of the certificate format."""

    smoothcert: str
    api: str
    certificate: str
    seed_commitment: str | None = None
    """The sha256 that fixes the secret from which the service makes its seeds; null if that secret is not kept."""


class Health(Wire):
    """This process answers."""

    status: Literal["ok"]


class RedisCheck(Wire):
    """One thing that the service expects of its Redis."""

    name: str
    status: Literal["ok", "warning", "unverified"]
    """`unverified` where the server does not tell."""
    detail: str


class ArchiveState(Wire):
    """How far the archive has come."""

    status: Literal["ok", "behind"]
    waiting: Whole
    """The certifications that it lacks or has to erase."""
    detail: str


class Readiness(Wire):
    """Redis answers and workers are alive."""

    status: Literal["ready"]
    workers: Whole
    redis: tuple[RedisCheck, ...] = ()
    """What was found out about Redis: whether it keeps what it acknowledges, its version and its clock."""
    archive: ArchiveState | None = None
    """Null where there is no archive. A service whose archive is behind is still ready: Redis keeps what it lacks."""
