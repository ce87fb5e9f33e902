"""The keywords with which a question is put to `Smoothed`, and the question that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from pydantic import ValidationError

from smoothcert.errors import DomainError, explain, shown, suggestion
from smoothcert.noise import Noise
from smoothcert.plan import beyond, plan
from smoothcert.procedures import PROCEDURES, Optimal, Parameters, preferred
from smoothcert.question import Question
from smoothcert.seeds import new_seed
from smoothcert.verdict import floor_radius


class QuestionKeywords(TypedDict, total=False):
    """The keywords of `certify`, `certify_many` and `evaluate`, apart from the radius."""

    procedure: str | Parameters | Mapping[str, Any] | None
    """`optimal` with a radius to prove, and `fixed`, which proves the largest radius it can, without one."""
    alpha: float
    """The chance of a false certificate of one image, 0.001 by default."""
    beta: float
    """The chance of giving up too early, 0.001 by default."""
    seed: str | int | None
    """Random, unless a run is to be repeated."""


def question_of(
    noise: Noise, radius: float | None, keywords: QuestionKeywords, *, images: int | None = None
) -> Question:
    """The question that the keywords make, if it can be answered; DomainError says why it cannot.

    `images` is the number of images that share alpha.
    """
    _refuse_unknown(keywords)
    chosen = _procedure(keywords.get("procedure"), radius, noise)
    alpha, beta = keywords.get("alpha", Question.alpha), keywords.get("beta", Question.beta)
    question = Question(noise, chosen, radius, alpha, beta)
    question = question if images is None else question.shared_by(images)
    if radius is None:
        question.require_fitting()
        _require_reach(question)
        question.start()
        _require_worth(question)
    else:
        _require_provable(question, radius)
    return question


def procedure_of_curve(
    procedure: str | Parameters | Mapping[str, Any] | None, radii: Sequence[float], radius: float | None, noise: Noise
) -> Parameters:
    """The procedure that decides about several radii in one run."""
    wanted = _numbers(radii)
    if radius is not None:
        raise DomainError(f"radius is {radius!r} and radii are {list(wanted)}: name the radius among the radii")
    chosen = preferred(0.0, noise) if procedure is None else _procedure(procedure, None, noise)
    if not isinstance(chosen, Optimal):
        raise DomainError(f"radii belong to the optimal procedure, got {chosen.name}")
    if chosen.radii is not None:
        raise DomainError("radii are given twice: as a keyword and in the procedure")
    return _procedure({**chosen.model_dump(), "radii": wanted}, None, noise)


def _numbers(radii: Sequence[float]) -> tuple[float, ...]:
    try:
        return tuple(map(float, radii))
    except (TypeError, ValueError):
        raise DomainError(f"radii must be a list of numbers, got {shown(radii)}") from None


def seed_of(seed: str | int | None) -> str:
    """The seed as certificates state it; a new one for None."""
    return new_seed() if seed is None else str(seed)


def _refuse_unknown(keywords: QuestionKeywords) -> None:
    if "family_wise" in keywords:
        raise TypeError("family_wise is a keyword of certify alone, where the number of images is known beforehand")
    if unknown := sorted(set(keywords) - set(QuestionKeywords.__annotations__)):
        known = ", ".join(QuestionKeywords.__annotations__)
        near = suggestion(unknown[0], ("radius", "family_wise", *QuestionKeywords.__annotations__))
        raise TypeError(f"there is no keyword {unknown[0]!r}{near}; a question has the keywords radius, {known}")


def _procedure(
    procedure: str | Parameters | Mapping[str, Any] | None, radius: float | None, noise: Noise
) -> Parameters:
    if procedure is None:
        return preferred(radius, noise)
    try:
        return PROCEDURES.validate(procedure)
    except ValidationError as error:
        raise DomainError(f"procedure: {explain(error, whole='')}") from None


def _require_reach(question: Question) -> None:
    """Refuse one of several radii that can never be proved."""
    if (radius := question.beyond_reach) is not None:
        needed = question.procedure.samples_needed(question.noise, radius, alpha=question.alpha)
        raise DomainError(
            beyond(question.procedure, question.noise, radius, floor_radius(max(0.0, question.reach)), needed)
        )


def _require_worth(question: Question) -> None:
    """Refuse several radii of which not even the least is worth its samples."""
    if question.procedure.targets(question.radius):
        _require_feasible(question, 0.0)


def _require_feasible(question: Question, radius: float) -> None:
    proposed = plan(question.procedure, question.noise, radius, alpha=question.alpha, beta=question.beta)
    if not proposed.feasible:
        raise DomainError(proposed.reason)


def _require_provable(question: Question, radius: float) -> None:
    procedure, noise = question.procedure, question.noise
    if not procedure.targeted:
        procedure.targets(radius)  # a procedure that has radii of its own says so
        does = "proves no radius" if procedure.predicts else "proves the largest radius it can"
        # For a noise of few outcomes, `exact` is the only procedure.
        other = "" if noise.exhaustible else ", or use the optimal procedure"
        raise DomainError(
            f"radius is {radius!r}, but the {procedure.name} procedure {does}: leave the radius out{other}"
        )
    noise.require_radius(radius)
    _require_feasible(question, radius)
