"""Whether a question can be answered at all, by the ensemble that it is put to: before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.http.errors import invalid
from smoothcert.errors import LEAST_LEVEL, DomainError, require_level
from smoothcert.noise import Noise
from smoothcert.plan import fewest_to_prove, remedy
from smoothcert.procedures import Parameters
from smoothcert.published import EnsembleCard
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from smoothcert.sequential import MOST_SAMPLES
from smoothcert.verdict import floor_radius


@dataclass(frozen=True)
class Settled:
    """A request with nothing left open, and the question that it puts to each image."""

    request: CertificationRequest
    question: Question


def settle(
    request: CertificationRequest,
    card: EnsembleCard,
    *,
    images: int,
    most_samples: int,
    most_sequential: int = MOST_SAMPLES,
) -> Settled:
    """Fill in what the ensemble decides; ProblemError where request and ensemble do not go together."""
    if request.procedure.name not in card.procedures:
        raise invalid("procedure", f"{request.procedure.name!r} is not offered, {_listed(card.procedures)} are")
    voting = request.voting or card.voting
    if voting not in card.votings:
        raise invalid("voting", f"{voting!r} is not offered by {card.name}, {_listed(card.votings)} are")
    if request.consensus is not None and request.consensus > (members := len(card.members)):
        raise invalid("consensus", f"is {request.consensus}, but {card.name} has {members} members")
    complete = request.model_copy(update={"ensemble": card.name, "noise": _noise(request, card), "voting": voting})
    settled = Settled(complete, Question.of(complete, images=images))
    _require_levels(settled, images)
    require_quick(request.procedure, most_sequential)
    _require_affordable(settled.question, images, most_samples)
    return settled


def require_quick(procedure: Parameters, most: int) -> None:
    """Refuse a procedure whose boundaries would be minutes of work."""
    if (samples := procedure.boundary_samples) > most:
        detail = f"has {samples:,}, this service computes boundaries of up to {most:,} samples"
        raise invalid(f"procedure.{procedure.budget}", detail, code="too_many_samples")


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


def require_provable(settled: Settled) -> None:
    """A radius where the procedure needs one, none where it has no use for it, and none that it can never prove.

    As many samples as the last look rests on, all of them on one class, prove the radius or nothing does.
    """
    question = settled.question
    radius, procedure = question.radius, question.procedure
    if procedure.targeted:
        radius = require_target(settled.request)
        _require_possible(question.noise, radius)
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


def _require_possible(noise: Noise, radius: float) -> None:
    try:
        noise.require_radius(radius)
    except DomainError as error:
        raise invalid("radius", str(error)) from None


def _out_of_reach(question: Question, radius: float) -> str:
    procedure = question.procedure
    largest = floor_radius(max(0.0, question.largest_radius))
    needed = fewest_to_prove(question.noise.probability(radius), procedure.last_alpha(question.alpha))
    return (
        f"is {radius:g}; the largest that can be proved with {question.noise.label}, alpha {question.alpha:g} "
        f"and a last stage of {procedure.last_look:,} samples is {largest:.6f}; {remedy(procedure, needed)}"
    )


def _noise(request: CertificationRequest, card: EnsembleCard) -> Noise:
    if request.noise is None:
        if card.noise is None:
            raise invalid("noise", f"must be given: the noise that {card.name} was trained for is unknown")
        return card.noise
    if card.noise is None or request.noise.suits(card.noise) or request.allow_noise_mismatch:
        return request.noise
    detail = f"is {request.noise.label}, but {card.name} was trained for {card.noise.label}"
    detail = f"{detail}; `allow_noise_mismatch` allows it"
    raise invalid("noise", detail, code="noise_mismatch")


def _require_levels(settled: Settled, images: int) -> None:
    """Refuse levels of which some look gets a smaller share than the mathematics can handle."""
    question, request = settled.question, settled.request
    try:
        require_level("alpha", question.procedure.last_alpha(question.alpha))
    except DomainError:
        detail = f"is {request.alpha:g}, of which each look at each of {images} images gets less than {LEAST_LEVEL}"
        raise invalid("alpha", detail) from None
    if question.procedure.least_beta(question.beta) < LEAST_LEVEL:
        raise invalid("beta", f"is {question.beta:g}, of which each stage gets less than {LEAST_LEVEL}")


def _require_affordable(question: Question, images: int, most: int) -> None:
    samples = question.most_samples
    if (total := images * samples) > most:
        detail = f"{images:,} images of up to {samples:,} samples are {total:,}, a certification may draw {most:,}"
        raise invalid("procedure", detail, code="too_many_samples")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
