"""Checks whether an ensemble can answer a question at all, before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.http.authentication import Keys
from app.http.errors import ProblemError, invalid
from app.webhooks.receivers import ReceiverError, Receivers
from smoothcert.choices import Allowed
from smoothcert.errors import LEAST_LEVEL, MOST, DomainError, require_level
from smoothcert.figures import radius_text
from smoothcert.noise import Noise, resolve
from smoothcert.plan import remedy
from smoothcert.procedures import Parameters, Predict
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
    allowed: int = MOST
    """The most samples that the last look of each image may have."""


def settle(
    request: CertificationRequest,
    card: EnsembleCard,
    *,
    images: int,
    eight_bit: bool,
    most_samples: int,
    most_sequential: int = MOST_SAMPLES,
) -> Settled:
    """The request with the ensemble's choices filled in; ProblemError if the ensemble cannot answer it.

    `eight_bit` says whether all images are, for which a noise that is not named in full is an exact one.
    """
    _require_offered("procedure", request.procedure.name, card.procedures, card)
    voting = request.voting or card.voting
    _require_offered("voting", voting, card.votings, card)
    if request.consensus is not None and request.consensus > (members := len(card.members)):
        raise invalid(
            "consensus", f"must be at most {members}, since {card.name} has {members} members; got {request.consensus}"
        )
    chosen = {"noise": _noise(request, card, eight_bit=eight_bit), "procedure": _procedure(request, card)}
    complete = request.model_copy(update={"ensemble": card.name, "sigma": None, "voting": voting, **chosen})
    question = Question.of(complete, images=images)
    settled = Settled(complete, question, Allowed(most_samples, most_sequential).of(question.procedure, images))
    _require_fitting(settled.question)
    _require_images(settled.question.noise, card)
    _require_levels(settled, images)
    require_quick(request.procedure, most_sequential)
    _require_affordable(settled.question, images, most_samples)
    return settled


def predicting(request: CertificationRequest) -> CertificationRequest:
    """The request for the class alone; ProblemError if it names a procedure that finds something else."""
    if "procedure" not in request.model_fields_set:
        return request.model_copy(update={"procedure": Predict()})
    if not request.procedure.predicts:
        raise invalid("procedure", f"of a prediction must be 'predict', or left out; got {request.procedure.name!r}")
    return request


def _procedure(request: CertificationRequest, card: EnsembleCard) -> Parameters:
    """The procedure with what it leaves to the ensemble."""
    try:
        return request.procedure.fitted(card.classes, card.superclasses)
    except DomainError as error:
        raise invalid("procedure", f"{card.name}: {error}") from None


def _require_fitting(question: Question) -> None:
    """Refuse a procedure that does not go with the noise."""
    try:
        question.require_fitting()
    except DomainError as error:
        raise invalid("procedure", str(error), code="procedure_mismatch") from None


def require_right(high: bool, keys: Keys, owner: str) -> None:
    """Refuse priority to a key that does not have the right to it."""
    if high and not keys.may_hurry(owner):
        raise ProblemError("not_permitted", f"priority: must be 'normal', since {owner} has no right to 'high'")


def require_receiver(webhook: str | None, receivers: Receivers) -> None:
    """Refuse a webhook to an address that the operator does not allow."""
    if webhook is not None:
        try:
            receivers.require(webhook)
        except ReceiverError as error:
            raise invalid("webhook", str(error)) from None


def require_archive(request: CertificationRequest, archive: str) -> None:
    """Refuse to keep images where nothing is kept."""
    if request.archive_images and not archive:
        raise invalid("archive_images", "must be false, since this service has no archive")


def _require_images(noise: Noise, card: EnsembleCard) -> None:
    """Refuse a noise that cannot be applied to images of the ensemble's shape."""
    try:
        noise.require_images(card.input_shape)
    except DomainError as error:
        raise invalid("noise", str(error)) from None


def require_quick(procedure: Parameters, most: int) -> None:
    """Refuse a procedure whose boundaries take minutes to compute."""
    if (samples := procedure.boundary_samples) > most:
        detail = f"must be at most {most:,}, since larger boundaries take minutes to compute; got {samples:,}"
        raise invalid(f"procedure.{procedure.budget}", detail, code="too_many_samples")


def require_labels(request: CertificationRequest, card: EnsembleCard, *, images: int) -> None:
    """Refuse labels unless there is one for each image, and each is a class of the ensemble."""
    labels, classes = request.labels, len(card.classes)
    if labels is None:
        return
    if len(labels) != images:
        raise invalid("labels", f"there are {len(labels)} for {images} images, wanted one for each")
    for index, label in enumerate(labels):
        if label >= classes:
            raise invalid(f"labels.{index}", f"must be a class of {card.name}, from 0 to {classes - 1}; got {label}")


def require_prepared(request: CertificationRequest, *, images: int) -> None:
    """Refuse what the client did to the images unless there is one entry for each of them."""
    if request.prepared is not None and len(request.prepared) != images:
        raise invalid("prepared", f"there are {len(request.prepared)} for {images} images, wanted one for each")


def require_provable(settled: Settled) -> None:
    """Refuse a missing radius, a radius that the procedure does not take, and one that it can never prove."""
    question = settled.question
    radius, procedure = question.radius, question.procedure
    if radius is not None and not procedure.targeted:
        does = "proves no radius" if procedure.predicts else "proves the largest radius it can"
        raise invalid("radius", f"must be left out, since the {procedure.name} procedure {does}; got {radius:g}")
    require_targets(settled)
    require_reach(settled)


def require_targets(settled: Settled) -> None:
    """Refuse a missing radius if the procedure needs one, and a radius that the noise cannot have."""
    question = settled.question
    try:
        for target in question.procedure.targets(question.radius):
            question.noise.require_radius(target)
    except DomainError as error:
        raise invalid("radius", str(error).removeprefix("radius ")) from None  # the field is named already


def require_reach(settled: Settled) -> None:
    """Refuse a radius, also one of several, that the procedure can never prove.

    A radius is within reach if it is proved when all samples of the last look fall on one class.
    """
    question = settled.question
    if (radius := question.beyond_reach) is not None:
        place, has = ("radius", "is") if question.procedure.targeted else ("procedure.radii", "has")
        raise invalid(place, f"{has} {_out_of_reach(settled, radius)}", code="radius_out_of_reach")


def _out_of_reach(settled: Settled, radius: float) -> str:
    question, procedure = settled.question, settled.question.procedure
    largest = floor_radius(max(0.0, question.reach))
    needed = procedure.samples_needed(question.noise, radius, alpha=question.alpha)
    return (
        f"{radius:g}; the largest that can be proved with {question.noise.label}, alpha {question.alpha:g} "
        f"and {procedure.look_text(procedure.last_look)} is {radius_text(largest)}; "
        f"{remedy(procedure, question.noise, radius, needed, allowed=settled.allowed)}"
    )


def _noise(request: CertificationRequest, card: EnsembleCard, *, eight_bit: bool) -> Noise:
    """The noise that the request names in full, or else one of the law that it or the ensemble names."""
    law = request.noise or resolve(sigma=request.sigma) or card.noise
    if law is None:
        raise invalid("noise", f"must be given, since the noise that {card.name} was trained for is unknown")
    noise = law.on_bytes(card.input_shape) if eight_bit and request.noise is None else law
    if card.noise is None or request.allow_noise_mismatch:
        return noise
    if not (law.suits(card.noise) or noise.suits(card.noise)):
        detail = f"is {law.label}, but {card.name} was trained for {card.noise.label}"
        given = "the noise" if request.noise else "sigma"
        raise invalid(
            "noise", f"{detail}: leave {given} out to use that; `allow_noise_mismatch` allows it", code="noise_mismatch"
        )
    return noise


def _require_levels(settled: Settled, images: int) -> None:
    """Refuse an alpha or beta of which some look gets a smaller share than double precision can handle."""
    question, request = settled.question, settled.request
    try:
        require_level("alpha", question.procedure.last_alpha(question.alpha))
    except DomainError:
        detail = f"is {request.alpha:g}, of which a look at one of {images} images gets less than {LEAST_LEVEL}"
        raise invalid("alpha", detail) from None
    try:
        question.procedure.require_levels(alpha=question.alpha, beta=question.beta)
    except DomainError as error:
        raise invalid("alpha", str(error)) from None
    if question.procedure.least_beta(question.beta) < LEAST_LEVEL:
        raise invalid("beta", f"is {question.beta:g}, of which a stage gets less than {LEAST_LEVEL}")


def _require_affordable(question: Question, images: int, most: int) -> None:
    samples = question.most_samples
    if (total := images * samples) > most:
        detail = (
            f"{images:,} images of up to {samples:,} samples need {total:,}, a certification may draw at most {most:,}"
        )
        raise invalid("procedure", detail, code="too_many_samples")


def _require_offered(field: str, name: str, offered: Sequence[str], card: EnsembleCard) -> None:
    if name not in offered:
        names = ", ".join(map(repr, offered))
        raise invalid(field, f"must be one of {names}, which {card.name} offers; got {name!r}")
