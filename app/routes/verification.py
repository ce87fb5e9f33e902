"""Verification: whether everything in a certificate follows from its counts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.http import body
from app.http.authentication import Owner
from app.http.errors import ProblemError
from app.requests.admission import require_quick
from app.service import TheService
from smoothcert.certificate import Certificate
from smoothcert.certification import Look
from smoothcert.errors import CertificateError
from smoothcert.implication import implied
from smoothcert.published import FieldProblem, VerificationAnswer
from smoothcert.remainder import remainder
from smoothcert.verification import verify

MOST_DETAIL = 2000
"""The most characters of a problem's detail: what is wrong with a certificate may be as long as the certificate."""

router = APIRouter(prefix="/v1/verify", tags=["verification"])


@router.post("", operation_id="verify")
async def create(request: Request, service: TheService, owner: Owner) -> Response:
    """Recompute the digest and everything that follows from the counts; say which fields are wrong."""
    body.content_type(request, body.JSON)
    with service.bodies.share(owner) as share:
        data = await body.read(request, service.settings, share)
        most = service.settings.sequential_samples
        verified = await service.verifier.run(lambda: _answer(data, most), owner=owner)
    return Response(verified.model_dump_json(), media_type="application/json")


def _answer(data: bytes, most_sequential: int) -> VerificationAnswer:
    body.require_one_reading(data)
    try:
        certificate = Certificate.from_json(data)
        require_quick(certificate.procedure, most_sequential)
        found = verify(certificate)
    except CertificateError as error:
        raise ProblemError("invalid_certificate", str(error)[:MOST_DETAIL]) from None
    problems = tuple(FieldProblem(field=each.field, message=each.message) for each in found.problems)
    if not found.consistent:
        return VerificationAnswer(consistent=False, problems=problems, looks=())
    return VerificationAnswer(
        consistent=True,
        problems=(),
        looks=_looks(certificate),
        implied=implied(certificate),
        remainder=remainder(certificate),
    )


def _looks(certificate: Certificate) -> tuple[Look, ...]:
    counts = [stage.count for stage in certificate.stages]
    sizes = [stage.n for stage in certificate.stages]
    return Look.at(certificate.procedure, counts, sizes, alpha=certificate.question.alpha)
