"""For operators: health, readiness, metrics and version."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app import metrics
from app.http.authentication import AUTHORISED
from app.http.errors import ProblemError, UnavailableError
from app.service import Service, TheService
from smoothcert import __version__
from smoothcert.attestation.keys import PATH
from smoothcert.certificate import Certificate
from smoothcert.published import ArchiveState, Health, Readiness, Version

router = APIRouter(tags=["operation"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", operation_id="health")
async def health() -> Response:
    """Whether this process answers."""
    return Response(Health(status="ok").model_dump_json(), media_type="application/json")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", operation_id="readiness")
async def readiness(service: TheService) -> Response:
    """Whether Redis answers and at least one worker is alive, and whether Redis keeps what it acknowledges."""
    workers = len((await service.queue.staff.roster(fresh=True)).workers)
    if not workers:
        raise ProblemError("not_ready", "no worker is alive; requests wait until one is", retry_after=1)
    checks, archive = await service.queue.checks(), await _archive(service)
    ready = Readiness(status="ready", workers=workers, redis=checks, archive=archive)
    return Response(ready.model_dump_json(), media_type="application/json")


async def _archive(service: Service) -> ArchiveState | None:
    if service.archivist is None:
        return None
    waiting, trouble = await service.queue.unarchived(), service.archivist.trouble
    if not (waiting and trouble):
        return ArchiveState(status="ok", waiting=waiting, detail="The archive accepts what has ended.")
    detail = f"The archive is behind by {waiting:,} certifications, which Redis keeps: {trouble}."
    return ArchiveState(status="behind", waiting=waiting, detail=detail)


@router.get("/metrics", operation_id="metrics", dependencies=[AUTHORISED])
async def prometheus(service: TheService) -> Response:
    """Metrics for Prometheus, even while Redis does not answer."""
    try:
        statistics = await service.queue.statistics()
    except UnavailableError:
        statistics = None
    return Response(service.request_metrics.text() + metrics.shared(statistics), media_type=metrics.MEDIA_TYPE)


@router.get(PATH, operation_id="list_signing_keys")
async def signing_keys(service: TheService) -> Response:
    """The public keys by which the signatures of this service are checked, with their validity; one of them signs."""
    return Response(service.attester.published.model_dump_json(), media_type="application/json")


@router.get("/v1/version", operation_id="version")
async def version(service: TheService) -> Response:
    """The versions of the package, the API and the certificate format, and the commitment to the seeds' secret."""
    versions = Version(
        smoothcert=__version__,
        api="1",
        certificate=Certificate.model_fields["format"].default,
        seed_commitment=service.intake.seeding.commitment,
    )
    return Response(versions.model_dump_json(), media_type="application/json")
