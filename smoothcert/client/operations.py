"""The operations of a service, each of which is one exchange, or one page after the other."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from smoothcert.attestation.envelope import MEDIA_TYPE
from smoothcert.certificate import Certificate
from smoothcert.certification import Certification, CertificationPage, Status
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import AlreadyEndedError, AnswerError, InvalidRequestError, UnknownCertificationError
from smoothcert.client.exchange import NEVER, Exchange
from smoothcert.client.fields import payload
from smoothcert.client.steps import Emit, Send, Steps
from smoothcert.published import EnsembleList, PlanAnswer, ServedEnsemble, VerificationAnswer
from smoothcert.request import PlanRequest

CERTIFICATIONS, ENSEMBLES, PLAN, VERIFY = "/v1/certifications", "/v1/ensembles", "/v1/plan", "/v1/verify"
JSON = {"Content-Type": "application/json"}
PAGE = 100
"""The certifications of one page of a list."""


@dataclass(frozen=True)
class Operations:
    """What a service answers, as steps."""

    exchange: Exchange

    def get(self, certification: str, *, wait_s: int = 0, deadline: Deadline = NEVER) -> Steps[Certification]:
        """The certification as it is now, or at its end if that comes within the wait."""
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        send = Send("GET", path_of(CERTIFICATIONS, certification), headers, wait_s=wait_s)
        return (yield from self.exchange.fetch(send, Certification, deadline))

    def attestations(self, certification: str) -> Steps[list[str]]:
        """The certificates of a certification that has ended, signed by the service: an envelope for each image."""
        send = Send("GET", path_of(CERTIFICATIONS, certification), {"Accept": MEDIA_TYPE})
        response = yield from self.exchange.response(send)
        if response.headers.get("content-type") != MEDIA_TYPE:
            raise AnswerError("the service does not sign certificates: it is of an earlier version")
        return [line for line in response.text.split("\n") if line]

    def summaries(self, status: Status | None) -> Steps[None]:
        """Emits a CertificationSummary of each certification, the newest first."""
        params = {"limit": str(PAGE)} | ({"status": status} if status else {})
        while True:
            page = yield from self.exchange.fetch(Send("GET", CERTIFICATIONS, params=params), CertificationPage)
            for summary in page.data:
                yield Emit(summary)
            if page.next_cursor is None:
                return
            params |= {"cursor": page.next_cursor}

    def cancel(self, certification: str) -> Steps[Certification]:
        """Cancel a certification; AlreadyEndedError if it has ended in another way than by a cancellation."""
        send = Send("POST", path_of(CERTIFICATIONS, certification) + "/cancel")
        try:
            return (yield from self.exchange.fetch(send, Certification))
        except AlreadyEndedError:
            found = yield from self.get(certification)
            if found.status != "canceled":
                raise
            return found

    def delete(self, certification: str) -> Steps[None]:
        """Delete a certification; StillRunningError if it has not ended."""
        try:
            yield from self.exchange.response(Send("DELETE", path_of(CERTIFICATIONS, certification)))
        except UnknownCertificationError as error:
            if error.attempts == 1:  # otherwise the first attempt deleted it, and its response was lost
                raise

    def ensembles(self) -> Steps[EnsembleList]:
        return (yield from self.exchange.fetch(Send("GET", ENSEMBLES), EnsembleList))

    def ensemble(self, name: str) -> Steps[ServedEnsemble]:
        return (yield from self.exchange.fetch(Send("GET", path_of(ENSEMBLES, name)), ServedEnsemble))

    def planned(self, request: PlanRequest) -> Steps[PlanAnswer]:
        content = json.dumps(payload(request)).encode()
        return (yield from self.exchange.fetch(Send("POST", PLAN, JSON, content=content), PlanAnswer))

    def verify(self, certificate: Certificate | str | bytes) -> Steps[VerificationAnswer]:
        """Whether all of a certificate follows from its counts, computed by the service."""
        text = certificate.to_json() if isinstance(certificate, Certificate) else certificate
        content = text.encode() if isinstance(text, str) else text
        return (yield from self.exchange.fetch(Send("POST", VERIFY, JSON, content=content), VerificationAnswer))


def path_of(folder: str, name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise InvalidRequestError(
            f"{name!r} cannot be a name in {folder}: names have letters, digits, '.', '_' and '-'"
        )
    return f"{folder}/{name}"
