"""The smoothed classifier as a classifier: its class at each image, without a radius."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.answers import predictions as answers
from app.http import headers
from app.http.authentication import Owner
from app.routes.certifications import submitted
from app.service import TheService

router = APIRouter(prefix="/v1/predictions", tags=["predictions"])


@router.post("", status_code=202, operation_id="predict")
async def predict(request: Request, service: TheService, owner: Owner) -> Response:
    """The class of the smoothed classifier at each image, wrong with probability at most alpha, or an abstention.

    The request is that of a certification, with the procedure `predict`, which may be left out, and no radius. It
    becomes a certification: its certificates, which prove the predictions, and its events are at `url`.
    """
    snapshot, fields = await submitted(request, service, owner, wait=headers.wait_seconds(request), prediction=True)
    text = await service.verifier.run(lambda: answers.predictions(snapshot))
    status = 200 if snapshot.record.ended else 202
    return Response(text, status_code=status, media_type="application/json", headers=fields)
