"""Certifications: post one, follow it, cancel it, forget it."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from app import answer, events, logs
from app.http import headers
from app.http.authentication import Owner
from app.http.errors import ProblemError
from app.redis.cursor import Cursor
from app.redis.queue import Found, Queue, Receipt
from app.requests import submission
from app.requests.intake import admit, new_id, require_taken
from app.service import TheService
from smoothcert.certification import Status
from smoothcert.errors import shown

POLL_SECONDS = 1

router = APIRouter(prefix="/v1/certifications", tags=["certifications"])


@router.post("", status_code=202, operation_id="create_certification")
async def create(request: Request, service: TheService, owner: Owner) -> Response:
    """Ask whether the answer of an ensemble on each image is stable within a radius."""
    wait, key = headers.wait_seconds(request), headers.idempotency_key(request)
    queue, certification = service.queue, new_id()
    with queue.changes.watch(certification, for_the_end=True) as watch:
        accepted, receipt = await _take_in(certification, request, service, owner=owner, key=key)
        logs.note(certification_id=receipt.certification)
        if receipt.outcome == "replay":
            return _created(await _replayed(receipt, request, owner, queue, wait), wait, replayed=True)
        latest = await queue.wait(accepted, watch, wait or 0, gone=request.is_disconnected)
        found = _still_there(latest, receipt.certification)
    return _created(found, wait, replayed=False)


async def _take_in(
    certification: str, request: Request, service: TheService, *, owner: str, key: str | None
) -> tuple[Found, Receipt]:
    """From the body to the queue. Apart, so that nothing of the body is held by who waits for an answer."""
    queue, settings, bodies = service.queue, service.settings, service.bodies
    with bodies.share() as share:
        posted = await submission.read(request, settings, bodies, share)
        offer = await service.offer(posted.request.ensemble)
        intake = await admit(
            certification, posted, offer, owner=owner, key=key, settings=settings, bodies=bodies, share=share
        )
        receipt = await queue.submit(intake.record, intake.pixels, idempotency=intake.idempotency, high=intake.high)
        await require_taken(receipt, queue, service.turns, offer.pool, settings)
    return Found(intake.record, {}, 0 if intake.high else receipt.count), receipt


async def _replayed(receipt: Receipt, request: Request, owner: str, queue: Queue, wait: int | None) -> Found:
    with queue.changes.watch(receipt.certification, for_the_end=True) as watch:
        found = await _find(receipt.certification, owner, queue)
        latest = await queue.wait(found, watch, wait or 0, gone=request.is_disconnected)
        return _still_there(latest, receipt.certification)


def _created(found: Found, wait: int | None, *, replayed: bool) -> Response:
    said = _waited(wait) | {"Location": answer.location(found.record.id)}
    if replayed:
        said["Idempotency-Replayed"] = "true"
    if not found.record.ended:
        said["Retry-After"] = str(POLL_SECONDS)
    return _told(found, 200 if found.record.ended else 202, said)


@router.get("/{id}", operation_id="get_certification")
async def get(id: str, request: Request, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """A certification: how far it has come, and the certificates that are finished."""
    wait, queue = headers.wait_seconds(request), service.queue
    with queue.changes.watch(id, for_the_end=True) as watch:
        found = await _find(id, owner, queue)
        found = _still_there(await queue.wait(found, watch, wait or 0, gone=request.is_disconnected), id)
    return _told(found, 200, _waited(wait))


@router.get("/{id}/events", operation_id="follow_certification")
async def follow(id: str, request: Request, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """What happens to a certification, as it happens."""
    headers.require_event_stream(request)
    last = headers.last_event_id(request)
    await _find(id, owner, service.queue)  # what is wrong is said before the stream begins
    if last == headers.END:
        return Response(status_code=204)
    stream = events.stream(service.queue, id, told=int(last))
    return StreamingResponse(stream, media_type=headers.EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


@router.post("/{id}/cancel", status_code=202, operation_id="cancel_certification")
async def cancel(id: str, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """Cancel a certification: at once while it waits, before the next batch once it runs."""
    asked = False
    while True:  # until it stands still long enough for us to act on what we saw
        found = await _find(id, owner, service.queue, expired=True)
        if asked and found.record.status == "canceled":
            return _told(found, 200, {})
        if found.record.ended:
            raise ProblemError("already_ended", f"the certification is {found.record.status_at(time.time())}")
        if found.record.status == "canceling":
            return _told(found, 202, {})
        await service.queue.cancel(found.record)
        asked = True


@router.delete("/{id}", status_code=204, operation_id="delete_certification")
async def delete(id: str, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """Forget a certification that has ended, with its certificates."""
    found = await _find(id, owner, service.queue, expired=True)
    if not found.record.ended:
        raise ProblemError("still_running", f"the certification is {found.record.status}: cancel it first")
    await service.queue.delete(found.record)
    return Response(status_code=204)


@router.get("", operation_id="list_certifications")
async def list_(
    service: TheService,
    owner: Owner,
    status: Annotated[Status | None, Query(description="Only those that have this status.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str, Query(description="The `next_cursor` of the page before.")] = "",
) -> Response:
    """One's own certifications, the newest first."""
    now, after = time.time(), Cursor.read(cursor) if cursor else None
    page = await service.queue.page(owner, status=status, limit=limit, after=after, now=now)
    summaries = (answer.summary(found.record, found.position, now=now) for found in page.found)
    text = answer.page(summaries, str(page.next) if page.next else None)
    return Response(text, media_type="application/json")


async def _find(certification: str, owner: str, queue: Queue, *, expired: bool = False) -> Found:
    """One's own certification; of others' it is not even said that they exist."""
    logs.note(certification_id=certification[:100])
    found = await queue.find(certification)
    if found is None or found.record.owner != owner:
        raise _unknown(certification)
    if found.record.status_at(time.time()) == "expired" and not expired:
        raise ProblemError("expired", f"the certification {certification} ended and has been forgotten since")
    return found


def _still_there(found: Found | None, certification: str) -> Found:
    if found is None:
        raise _unknown(certification)
    return found


def _unknown(certification: str) -> ProblemError:
    return ProblemError("unknown_certification", f"there is no certification {shown(certification)}")


def _waited(wait: int | None) -> dict[str, str]:
    return {} if wait is None else {"Preference-Applied": f"wait={wait}"}


def _told(found: Found, status: int, said: dict[str, str]) -> Response:
    text = answer.certification(found, now=time.time())
    return Response(text, status_code=status, media_type="application/json", headers=said)
