"""The examination of a file that somebody was handed; it needs no key."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.http import body
from app.service import TheService
from smoothcert.attestation.keys import KeySet
from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError
from smoothcert.examination import examine
from smoothcert.published import ExaminationAnswer

MOST_BYTES = 4_000_000
"""The bytes of a file: some thousand certificates of ten classes."""
MOST_PROBLEMS = 100
"""The number of problems that an answer lists."""
MOST_SAMPLES = 1_000_000
"""The samples of all boundaries that are computed for one file; they take seconds."""

router = APIRouter(prefix="/v1/examine", tags=["verification"])


@router.post("", operation_id="examine")
async def create(request: Request, service: TheService) -> Response:
    """Examine a file with certificates: who signed it, whether it is unaltered, whether its claims follow.

    The file is a certificate or an attestation, a certification, a list, or lines of them. Signatures are checked with
    the keys of this service. Nobody needs a key for this, and the file is not kept.
    """
    await service.visitors.admit(request)
    settings = service.settings.model_copy(update={"request_bytes": min(MOST_BYTES, service.settings.request_bytes)})
    with service.bodies.share("") as share:
        data = await body.read(request, settings, share)
        body.require_few_values(data)
        keys = service.attester.published
        examined = await service.visitors.run(lambda: _answer(data, keys if keys.keys else None))
    return Response(examined.model_dump_json(), media_type="application/json")


def _answer(data: bytes, keys: KeySet | None) -> ExaminationAnswer:
    found = examine(data, keys, unsigned=True, admit=Budget(MOST_SAMPLES).spend)
    fields = {**asdict(found), "problems": found.problems[:MOST_PROBLEMS], "consistent": bool(found)}
    return ExaminationAnswer.model_validate(fields)


class Budget:
    """Bounds the boundaries that are computed for one file; those that were computed before cost nothing."""

    def __init__(self, samples: int) -> None:
        self._most = self._left = samples
        self._paid: set[str] = set()

    def spend(self, certificate: Certificate) -> None:
        """Raise DomainError if the boundaries of this certificate would take too long."""
        question = repr(certificate.question)
        if question in self._paid:
            return
        needed = certificate.procedure.boundary_samples
        if needed > self._left:
            raise DomainError(
                f"is not verified here: the boundaries of this file need more than {self._most:,} samples; "
                "`smoothcert verify` has no such limit"
            )
        self._left -= needed
        self._paid.add(question)
