"""Operations on certifications: create, read, follow, cancel, delete, list."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from app import logs
from app.answers import certifications as answers
from app.answers import events
from app.archive.archive import KeptCertification
from app.archive.reader import ArchiveReader
from app.http import headers
from app.http.authentication import Owner
from app.http.errors import ProblemError
from app.redis.cursor import Cursor
from app.redis.snapshot import Snapshot
from app.requests.intake import new_id
from app.service import Service, TheService
from smoothcert.certification import Status
from smoothcert.errors import shown
from store.record import Record

POLL_SECONDS = 1
"""The Retry-After of a certification that has not ended."""

router = APIRouter(prefix="/v1/certifications", tags=["certifications"])


@router.post("", status_code=202, operation_id="create_certification")
async def create(request: Request, service: TheService, owner: Owner) -> Response:
    """Ask whether the answer of an ensemble on each image is stable within a radius."""
    snapshot, fields = await submitted(request, service, owner, wait=headers.wait_seconds(request))
    return _response(snapshot, 200 if snapshot.record.ended else 202, fields)


async def submitted(
    request: Request, service: TheService, owner: str, *, wait: int | None, prediction: bool = False
) -> tuple[Snapshot, dict[str, str]]:
    """The certification that a request asks for, after the wait, and the headers of the answer."""
    key, queue, certification = headers.idempotency_key(request), service.queue, new_id()
    api = queue.listener.name if wait else ""
    with queue.listener.changes.watch(certification, for_the_end=True) as watch:  # its end is told to this process
        receipt, snapshot = await service.intake.take(
            request, certification, owner=owner, key=key, api=api, prediction=prediction
        )
        logs.note(certification_id=receipt.certification)
        replayed = receipt.outcome == "replay"
        if wait and not replayed:
            latest = await queue.wait(snapshot, watch, wait, gone=request.is_disconnected)
            snapshot = _still_there(latest, certification)
    if replayed:
        snapshot = await _waited(receipt.certification, request, owner, service, wait)
    return snapshot, _created(snapshot, wait, replayed=replayed)


def _created(snapshot: Snapshot, wait: int | None, *, replayed: bool) -> dict[str, str]:
    fields = _preference_applied(wait) | {"Location": answers.location(snapshot.record.id)}
    if replayed:
        fields["Idempotency-Replayed"] = "true"
    if not snapshot.record.ended:
        fields["Retry-After"] = str(POLL_SECONDS)
    return fields


@router.get("/{id}", operation_id="get_certification")
async def get(id: str, request: Request, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """The state of a certification, its progress, and the certificates that are finished.

    With `Accept: application/vnd.in-toto+json`, the certificates of a certification that has ended, signed: a DSSE
    envelope around an in-toto Statement v1 for each of them, one in each line, in the order of the images.
    """
    wait, attested = headers.wait_seconds(request), headers.prefers_attestations(request)
    if attested:
        service.attester.require_signer()
    fields = {**_preference_applied(wait), "Vary": "Accept"}
    try:
        snapshot = await _waited(id, request, owner, service, wait)
    except ProblemError as error:
        kept = await _kept(id, owner, service, error)
        if not attested:
            return Response(kept.text, media_type="application/json", headers=fields)
        texts = await service.verifier.run(lambda: kept.certificates)
        text = await service.attester.attest([texts[index] for index in sorted(texts)])
        return Response(text, media_type=headers.ATTESTATION, headers=fields)
    if not attested:
        return _response(snapshot, 200, fields)
    if not snapshot.record.ended:
        raise ProblemError("still_running", f"the certification is {snapshot.record.status}; it is signed at its end")
    text = await service.attester.attest([snapshot.certificates[index] for index in sorted(snapshot.certificates)])
    return Response(text, media_type=headers.ATTESTATION, headers=fields)


@router.get("/{id}/events", operation_id="follow_certification")
async def follow(id: str, request: Request, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """The changes of a certification as server-sent events: `status`, `certificate`, `progress`, `stall`, `completed`.

    `stall` tells that its worker is silent or lost, or that no worker is alive, and when the work goes on; it is null
    when it does.
    """
    headers.require_event_stream(request)
    last = headers.last_event_id(request)
    try:  # errors are answered before the stream begins
        snapshot = await _find(id, owner, service, expired=True)
        if _archived_alone(snapshot):
            raise _unknown(id)
        _require_unexpired(snapshot.record)
    except ProblemError as error:
        kept = await _kept(id, owner, service, error)
        if last == headers.END:
            return Response(status_code=204)
        replayed = await service.verifier.run(lambda: b"".join(events.of_archived(kept, sent=int(last))))
        return Response(replayed, media_type=headers.EVENT_STREAM)
    if last == headers.END:
        return Response(status_code=204)
    stream = events.stream(service.queue, id, sent=int(last))
    return StreamingResponse(stream, media_type=headers.EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


@router.post("/{id}/cancel", status_code=202, operation_id="cancel_certification")
async def cancel(id: str, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """Cancel a certification: at once while it waits, before the next batch once it runs."""
    attempted = False
    while True:  # `Queue.cancel` does nothing if the record changes after it was read, so it is read again
        try:
            snapshot = await _find(id, owner, service, expired=True)
        except ProblemError as error:
            await _kept(id, owner, service, error)
            raise ProblemError("already_ended", "the certification has ended and is in the archive") from None
        if attempted and snapshot.record.status == "canceled":
            return _response(snapshot, 200, {})
        if snapshot.record.ended:
            raise ProblemError(
                "already_ended", f"the certification has ended as {snapshot.record.status_at(time.time())}"
            )
        if snapshot.record.status == "canceling":
            return _response(snapshot, 202, {})
        await service.queue.cancel(snapshot.record)
        attempted = True


@router.delete("/{id}", status_code=204, operation_id="delete_certification")
async def delete(id: str, service: TheService, owner: Owner) -> Response:  # noqa: A002
    """Delete a certification that has ended, with its certificates, also from the archive."""
    try:
        snapshot = await _find(id, owner, service, expired=True)
    except ProblemError as error:
        archive = await _require_kept(id, owner, service, error)
        await archive.delete(id, owner=owner)
        return Response(status_code=204)
    if not snapshot.record.ended:
        raise ProblemError("still_running", f"the certification is {snapshot.record.status}: cancel it first")
    await service.queue.delete(snapshot.record)
    return Response(status_code=204)


@router.get("", operation_id="list_certifications")
async def list_(
    service: TheService,
    owner: Owner,
    status: Annotated[Status | None, Query(description="Only certifications with this status.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str, Query(description="The `next_cursor` of the previous page.")] = "",
) -> Response:
    """The certifications of the caller's key, the newest first."""
    now, after = time.time(), Cursor.read(cursor) if cursor else None
    page = await service.queue.listing.page(owner, status=status, limit=limit, after=after, now=now)
    if service.archive is None:
        summaries = [answers.summary(each.record, each.position, now=now) for each in page.snapshots]
        following = page.next
    else:
        summaries, following = await service.archive.page(page, owner, status=status, limit=limit, after=after, now=now)
    text = answers.page(summaries, str(following) if following else None)
    return Response(text, media_type="application/json")


async def _kept(certification: str, owner: str, service: Service, error: ProblemError) -> KeptCertification:
    """A certification that Redis no longer has, from the archive; the error if the archive does not have it either."""
    if error.code != "unknown_certification" or service.archive is None:
        raise error
    kept = await service.archive.find(certification, owner=owner)
    if kept is None:
        raise error
    return kept


async def _require_kept(certification: str, owner: str, service: Service, error: ProblemError) -> ArchiveReader:
    """The archive, if it has a certification; the error otherwise. A damaged one can be deleted, too."""
    if service.archive is None:
        raise error
    try:
        await _kept(certification, owner, service, error)
    except ProblemError as found:
        if found.code != "archive_damaged":
            raise
    return service.archive


async def _find(certification: str, owner: str, service: Service, *, expired: bool = False) -> Snapshot:
    """A certification of this owner; another owner's is answered as if it did not exist.

    With `expired`, it may lack certificates that have expired.
    """
    logs.note(certification_id=certification[:100])
    snapshot = await service.queue.find(certification, owner=owner)
    if snapshot is None:
        raise _unknown(certification)
    if expired:
        return snapshot
    if _archived_alone(snapshot):
        kept = await _kept(certification, owner, service, _unknown(certification))
        texts = await service.verifier.run(lambda: kept.certificates)
        return replace(snapshot, certificates=texts)
    _require_unexpired(snapshot.record)
    return snapshot


def _archived_alone(snapshot: Snapshot) -> bool:
    """Whether certificates have expired in Redis, and the archive has them."""
    record = snapshot.record
    return bool(record.archive) and record.ended and len(snapshot.certificates) < record.done


def _require_unexpired(record: Record) -> None:
    if record.status_at(time.time()) == "expired":
        raise ProblemError("expired", f"the certification {record.id} has ended and expired")


async def _waited(certification: str, request: Request, owner: str, service: Service, wait: int | None) -> Snapshot:
    """A certification of this owner once it has ended, or after the preferred wait."""
    snapshot, queue = await _find(certification, owner, service), service.queue
    if not wait or snapshot.record.ended:
        return snapshot
    async with queue.listener.watching(certification, for_the_end=True) as watch:
        latest = await queue.wait(snapshot, watch, wait, gone=request.is_disconnected)
    return _still_there(latest, certification)


def _still_there(snapshot: Snapshot | None, certification: str) -> Snapshot:
    if snapshot is None:
        raise _unknown(certification)
    return snapshot


def _unknown(certification: str) -> ProblemError:
    return ProblemError("unknown_certification", f"there is no certification {shown(certification)}")


def _preference_applied(wait: int | None) -> dict[str, str]:
    return {} if wait is None else {"Preference-Applied": f"wait={wait}"}


def _response(snapshot: Snapshot, status: int, fields: dict[str, str]) -> Response:
    text = answers.certification(snapshot, now=time.time())
    return Response(text, status_code=status, media_type="application/json", headers=fields)
