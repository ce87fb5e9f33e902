"""The procedures and noises that a request can name, as they describe themselves."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.http.authentication import AUTHORISED
from smoothcert.choices import NoiseList, ProcedureList

router = APIRouter(prefix="/v1", dependencies=[AUTHORISED])


@router.get("/procedures", operation_id="list_procedures", tags=["procedures"])
async def procedures() -> Response:
    """All procedures, with the words and inputs that a form needs for each."""
    return Response(ProcedureList.known().model_dump_json(), media_type="application/json")


@router.get("/noises", operation_id="list_noises", tags=["noises"])
async def noises() -> Response:
    """All noises, with the names of their parameters."""
    return Response(NoiseList.known().model_dump_json(), media_type="application/json")
