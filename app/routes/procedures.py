"""The procedures and noises that a request can name, as they describe themselves."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.http.authentication import AUTHORISED
from app.service import TheService
from smoothcert.choices import Allowed, NoiseList, ProcedureList

router = APIRouter(prefix="/v1", dependencies=[AUTHORISED])


@router.get("/procedures", operation_id="list_procedures", tags=["procedures"])
async def procedures(service: TheService) -> Response:
    """All procedures, with the words and inputs that a form needs for each."""
    allowed = Allowed(service.settings.samples, service.settings.sequential_samples)
    return Response(ProcedureList.known(allowed).model_dump_json(), media_type="application/json")


@router.get("/noises", operation_id="list_noises", tags=["noises"])
async def noises() -> Response:
    """All noises, with the names of their parameters."""
    return Response(NoiseList.known().model_dump_json(), media_type="application/json")
