"""The end of a certification: its certificates, or an error."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.attestation.envelope import Attestation
from smoothcert.certificate import Certificate
from smoothcert.certification import Certification
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import (
    FAILED_BY_CODE,
    AnswerError,
    CanceledError,
    CertificationFailedError,
    WaitTimeoutError,
)
from smoothcert.errors import SmoothcertError


def certificates(ended: Certification) -> tuple[Certificate, ...]:
    """The certificates of a certification that has ended; CertificationFailedError by its code if it failed."""
    if ended.status == "succeeded":
        return ended.certificates
    failure = _failure(ended)
    failure.certification = ended
    raise failure


def sealed(found: Sequence[Certificate], attestations: Sequence[str]) -> tuple[Certificate, ...]:
    """Certificates with their attestations; AnswerError if one of them is about something else."""
    try:
        attested = [Attestation.read(text).statement.certificate() for text in attestations]
    except SmoothcertError as error:
        raise AnswerError(f"the service sent an attestation that cannot be read: {error}") from error
    if [each.digest for each in attested] != [each.digest for each in found]:
        raise AnswerError("the service sent attestations of other certificates")
    return tuple(each.sealed(text) for each, text in zip(found, attestations, strict=True))


def _failure(ended: Certification) -> CertificationFailedError:
    if ended.error is not None:
        kind = FAILED_BY_CODE.get(ended.error.code, CertificationFailedError)
        return kind(f"{ended.id}: {ended.error.detail}", code=ended.error.code)
    kind = CanceledError if ended.status == "canceled" else CertificationFailedError
    return kind(f"{ended.id}: the certification is {ended.status}", code=ended.status)


def not_ended(found: Certification, deadline: Deadline) -> WaitTimeoutError:
    """The error for a certification that has not ended at the deadline."""
    where = "" if found.queue_position is None else f", {found.queue_position} before it"
    done = f"{found.progress.images_done} of {found.progress.images_total} images done"
    error = WaitTimeoutError(f"{found.id} has not ended after {deadline.seconds:g} s: {found.status}{where}, {done}")
    error.certification = found
    return error
