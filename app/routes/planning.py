"""Plans: what a request could prove and what it would cost, before it is posted."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.http import body
from app.http.authentication import Owner
from app.requests import admission
from app.requests.admission import Settled
from app.service import TheService
from smoothcert.plan import Plan, plan
from smoothcert.published import Expectation, LookPlan, PlanAnswer, Seconds
from smoothcert.request import PlanRequest
from store.presence import Speed

SHARES = (-1.0, -0.5, -0.1, 0.1, 0.5, 0.9)
"""Where expectations are computed, as shares of the way from the least p_A that proves the radius to one: from hopeless
images to easy ones."""

router = APIRouter(prefix="/v1/plan", tags=["planning"])


@router.post("", operation_id="plan")
async def create(request: Request, service: TheService, owner: Owner) -> Response:
    """Whether a radius can be proved at all, with how many samples, and in what time."""
    posted = await body.read_json(request, service.settings, service.bodies, PlanRequest, owner=owner)
    offer = await service.offer(posted.ensemble)
    settled = admission.settle(
        posted,
        offer.card,
        images=posted.image_count,
        eight_bit=True,  # a plan has no images; the exact noise costs nothing that a plan could show
        most_samples=service.settings.samples,
        most_sequential=service.settings.sequential_samples,
    )
    admission.require_targets(settled)
    if not settled.question.procedure.targeted:  # a plan has one answer: it cannot say which of several is out of reach
        admission.require_reach(settled)
    speed = (await service.queue.staff.roster()).speed(offer)
    members = len(offer.card.members)
    planned = await service.planner.run(
        lambda: _answer(settled, images=posted.image_count, members=members, speed=speed), owner=owner
    )
    return Response(planned.model_dump_json(), media_type="application/json")


def _answer(settled: Settled, *, images: int, members: int, speed: Speed | None) -> PlanAnswer:
    request, question = settled.request, settled.question
    # a procedure without a target is planned for radius 0: what it can reach does not depend on it
    planned = plan(question.procedure, question.noise, request.radius or 0.0, alpha=question.alpha, beta=request.beta)
    return PlanAnswer(
        alpha=question.alpha,
        pooled=question.procedure.pooled,
        look_count=question.procedure.look_count,
        feasible=planned.feasible,
        reason=planned.reason,
        radius=planned.radius,
        p0=planned.p0,
        largest_radius=planned.largest_radius,
        supremum=planned.supremum,
        samples_needed=planned.samples_needed,
        samples_allowed=settled.allowed,
        fewest_samples=planned.fewest_samples,
        most_samples=planned.most_samples,
        seconds=_seconds(planned, images=images, leading=request.consensus or members, members=members, speed=speed),
        boundaries=_looks(planned),
        expected=_expectations(planned),
    )


def _seconds(planned: Plan, *, images: int, leading: int, members: int, speed: Speed | None) -> Seconds | None:
    """The first K members agree on all samples in the best case and on those of a clear image, on none in the worst."""
    if speed is None:
        return None

    def spent(samples: float | None, voters: int) -> float | None:
        return None if samples is None else planned.rows(samples, speed.rows) * voters / speed.evaluations_per_second

    clear = planned.expected(_p_at(planned, SHARES[-1])).samples if planned.boundaries else None
    # Without boundaries the looks are not known, and neither are the rows that pad them.
    most = max(planned.most_samples, planned.rows(planned.most_samples, speed.rows))
    worst = most * members / speed.evaluations_per_second
    expected, together = spent(clear, leading), None
    if clear is not None and expected is not None:  # the looks of several images share batches, so little is padded
        together = max(expected, images * clear * leading / speed.evaluations_per_second)
    return Seconds(best=spent(planned.fewest_samples, leading), expected=expected, worst=worst, together=together)


def _looks(planned: Plan) -> tuple[LookPlan, ...]:
    if planned.boundaries is None:
        return ()
    columns = (planned.boundaries.looks, planned.boundaries.certify, planned.boundaries.abandon)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(LookPlan(n=n, certify_at=certify, abandon_at=abandon) for n, certify, abandon in rows)


def _expectations(planned: Plan) -> tuple[Expectation, ...]:
    if planned.boundaries is None:
        return ()
    return tuple(Expectation(p_a=p, **vars(planned.expected(p))) for p in (_p_at(planned, share) for share in SHARES))


def _p_at(planned: Plan, share: float) -> float:
    return round(planned.p0 + (1 - planned.p0) * share, 6)
