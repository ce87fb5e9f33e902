"""The ensembles that the service offers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.http.authentication import AUTHORISED
from app.service import TheService
from smoothcert.published import EnsembleList

router = APIRouter(prefix="/v1/ensembles", tags=["ensembles"], dependencies=[AUTHORISED])


@router.get("", operation_id="list_ensembles")
async def list_(service: TheService) -> Response:
    """All ensembles that are served now or were lately, and those that workers could not load."""
    roster = await service.queue.staff.roster()
    served = EnsembleList(data=tuple(roster.served(offer) for offer in roster.offers), failed=roster.failed)
    return Response(served.model_dump_json(), media_type="application/json")


@router.get("/{name}", operation_id="get_ensemble")
async def get(name: str, service: TheService) -> Response:
    """One ensemble by its name."""
    offer = await service.offer(name)
    served = (await service.queue.staff.roster()).served(offer)
    return Response(served.model_dump_json(), media_type="application/json")
