"""Whether a question can be answered at all, by the ensemble that it is put to: before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import invalid
from smoothcert.errors import LEAST_LEVEL, DomainError, require_level
from smoothcert.noise import Gaussian
from smoothcert.plan import fewest_to_prove, remedy
from smoothcert.procedures import Adaptive, AnyProcedure, Sequential
from smoothcert.published import EnsembleCard
from smoothcert.request import CertificationRequest
from smoothcert.sequential import MOST_SAMPLES
from smoothcert.verdict import floor_radius


@dataclass(frozen=True)
class Question:
    """A request with nothing left open."""

    request: CertificationRequest
    noise: Gaussian
    alpha: float
    """For each image: the share of each where alpha is shared."""

    @property
    def samples(self) -> int:
        """Of one image in the worst case."""
        return self.request.procedure.n0 + self.request.procedure.most_samples

    @property
    def largest_radius(self) -> float:
        """The largest that the procedure can ever prove; not above zero where it proves none."""
        return self.request.procedure.largest_radius(self.noise, alpha=self.alpha)


def settle(
    request: CertificationRequest,
    card: EnsembleCard,
    *,
    images: int,
    most_samples: int,
    most_sequential: int = MOST_SAMPLES,
) -> Question:
    """Fill in what the ensemble decides; ProblemError where request and ensemble do not go together."""
    if request.procedure.name not in card.procedures:
        raise invalid("procedure", f"{request.procedure.name!r} is not offered, {_listed(card.procedures)} are")
    voting = request.voting or card.voting
    if voting not in card.votings:
        raise invalid("voting", f"{voting!r} is not offered by {card.name}, {_listed(card.votings)} are")
    if request.consensus is not None and request.consensus > (members := len(card.members)):
        raise invalid("consensus", f"is {request.consensus}, but {card.name} has {members} members")
    settled = request.model_copy(update={"ensemble": card.name, "sigma": _sigma(request, card), "voting": voting})
    question = Question(
        settled, Gaussian(settled.sigma or 0.0), request.alpha / images if request.family_wise else request.alpha
    )
    _require_levels(question, images)
    require_quick(request.procedure, most_sequential)
    _require_affordable(question, images, most_samples)
    return question


def require_quick(procedure: AnyProcedure, most: int) -> None:
    """That the boundaries of a sequential test are not minutes of work."""
    if isinstance(procedure, Sequential) and procedure.max_samples > most:
        said = f"has {procedure.max_samples:,}, this service computes boundaries of up to {most:,} samples"
        raise invalid("procedure.max_samples", said, code="too_many_samples")


def require_labels(request: CertificationRequest, card: EnsembleCard, *, images: int) -> None:
    """One label for each image, and each a class of the ensemble."""
    labels, classes = request.labels, len(card.classes)
    if labels is None:
        return
    if len(labels) != images:
        raise invalid("labels", f"there are {len(labels)} for {images} images")
    for index, label in enumerate(labels):
        if label >= classes:
            raise invalid(f"labels.{index}", f"is {label}, but {card.name} has the classes 0 to {classes - 1}")


def require_provable(question: Question) -> None:
    """A radius where the procedure needs one, none where it has no use for it, and none that it can never prove.

    As many samples as the last look rests on, all of them on one class, prove the radius or nothing does.
    """
    radius, procedure = question.request.radius, question.request.procedure
    if procedure.targeted:
        radius = require_target(question.request)
        if not 0 < question.largest_radius >= radius:
            raise invalid("radius", _out_of_reach(question, radius), code="radius_out_of_reach")
    elif radius is not None:
        said = f"is {radius:g}, but a {procedure.name} procedure proves the largest radius it can: leave it out"
        raise invalid("radius", said)


def require_target(request: CertificationRequest) -> float:
    """The radius that the procedure needs."""
    try:
        return request.procedure.target(request.radius)
    except DomainError as error:
        raise invalid("radius", str(error)) from None


def _out_of_reach(question: Question, radius: float) -> str:
    procedure = question.request.procedure
    largest = floor_radius(max(0.0, question.largest_radius))
    needed = fewest_to_prove(question.noise.probability(radius), procedure.last_alpha(question.alpha))
    return (
        f"is {radius:g}; the largest that can be proved with sigma {question.noise.sigma:g}, alpha {question.alpha:g} "
        f"and a last stage of {procedure.last_look:,} samples is {largest:.6f}; {remedy(procedure, needed)}"
    )


def _sigma(request: CertificationRequest, card: EnsembleCard) -> float:
    if request.sigma is None:
        if card.sigma is None:
            raise invalid("sigma", f"must be given: nobody has said what {card.name} was trained for")
        return card.sigma
    if card.sigma in (None, request.sigma) or request.allow_sigma_mismatch:
        return request.sigma
    said = f"is {request.sigma:g}, but {card.name} was trained for {card.sigma:g}; `allow_sigma_mismatch` allows it"
    raise invalid("sigma", said, code="sigma_mismatch")


def _require_levels(question: Question, images: int) -> None:
    """That no share of alpha or beta is smaller than the mathematics goes."""
    procedure, beta = question.request.procedure, question.request.beta
    try:
        require_level("alpha", procedure.last_alpha(question.alpha))
    except DomainError:
        said = (
            f"is {question.request.alpha:g}, of which each look at each of {images} images gets less than {LEAST_LEVEL}"
        )
        raise invalid("alpha", said) from None
    if isinstance(procedure, Adaptive) and (stages := len(procedure.stages)) > 1 and beta / (stages - 1) < LEAST_LEVEL:
        raise invalid("beta", f"is {beta:g}, of which each of {stages - 1} stages gets less than {LEAST_LEVEL}")


def _require_affordable(question: Question, images: int, most: int) -> None:
    if (total := images * question.samples) > most:
        said = (
            f"{images:,} images of up to {question.samples:,} samples are {total:,}, a certification may draw {most:,}"
        )
        raise invalid("procedure", said, code="too_many_samples")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
