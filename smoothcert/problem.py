"""Problems (RFC 9457): the responses of the service to requests that it cannot fulfil. Their `code` is stable."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field


class Failure(BaseModel):
    """Why a certification that had been accepted ended without certificates."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    code: str
    detail: str


class FieldError(BaseModel):
    """What is wrong with one field of a request."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    field: str
    message: str


class Problem(BaseModel):
    """The body of every response that is an error."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    code: str
    request_id: str
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem: its HTTP status and its title."""

    status: int
    title: str


KINDS: dict[str, ProblemKind] = {
    "bad_request": ProblemKind(400, "The request cannot be read"),
    "malformed_json": ProblemKind(400, "The body is not JSON"),
    "malformed_multipart": ProblemKind(400, "The body is not a multipart form"),
    "malformed_npy": ProblemKind(400, "The body is not an npy array"),
    "unauthorized": ProblemKind(401, "A valid API key is needed"),
    "not_permitted": ProblemKind(403, "This key does not have the right"),
    "cross_site": ProblemKind(403, "A page of another site must not send this request"),
    "not_found": ProblemKind(404, "Not found"),
    "unknown_ensemble": ProblemKind(404, "There is no such ensemble"),
    "ensemble_not_loaded": ProblemKind(404, "The ensemble cannot be loaded"),
    "unknown_certification": ProblemKind(404, "There is no such certification"),
    "method_not_allowed": ProblemKind(405, "The method is not allowed here"),
    "not_acceptable": ProblemKind(406, "The response cannot have a form that the request accepts"),
    "too_slow": ProblemKind(408, "The request arrived too slowly"),
    "idempotency_conflict": ProblemKind(409, "The Idempotency-Key was used for another request"),
    "already_ended": ProblemKind(409, "The certification has ended"),
    "still_running": ProblemKind(409, "The certification has not ended"),
    "expired": ProblemKind(410, "The certification has expired"),
    "too_large": ProblemKind(413, "The request is too large"),
    "too_many_images": ProblemKind(413, "The request has too many images"),
    "unsupported_media_type": ProblemKind(415, "The content type is not supported"),
    "misdirected": ProblemKind(421, "The service does not have this host name"),
    "invalid_request": ProblemKind(422, "A field of the request is wrong"),
    "invalid_image": ProblemKind(422, "An image cannot be certified as it is"),
    "image_off_grid": ProblemKind(422, "An image has values that the noise cannot be added to"),
    "noise_mismatch": ProblemKind(422, "The ensemble was trained for another noise"),
    "procedure_mismatch": ProblemKind(422, "The procedure does not go with the noise"),
    "radius_out_of_reach": ProblemKind(422, "The radius can never be proved by this procedure"),
    "too_many_samples": ProblemKind(422, "The certification could draw too many samples"),
    "invalid_certificate": ProblemKind(422, "The body is not a certificate"),
    "too_many_failures": ProblemKind(429, "Too many requests with a wrong key"),
    "too_many_requests": ProblemKind(429, "This key sends too many requests"),
    "queue_full": ProblemKind(429, "The queue is full"),
    "too_many_certifications": ProblemKind(429, "This key has too many certifications at a time"),
    "head_too_large": ProblemKind(431, "The head of the request is too large"),
    "internal": ProblemKind(500, "Internal error"),
    "archive_damaged": ProblemKind(500, "The archived certification is damaged"),
    "unavailable": ProblemKind(503, "The service is not available"),
    "unconfirmed": ProblemKind(503, "The replicas do not confirm the certification"),
    "overloaded": ProblemKind(503, "The service is overloaded"),
    "storage_full": ProblemKind(503, "The service has no room for new work"),
    "not_ready": ProblemKind(503, "The service is not ready"),
}
"""Every code that a problem can have."""

FAILURES: dict[str, str] = {
    "worker_died": "the workers that tried it died",
    "deadline_exceeded": "it had not ended before the deadline",
    "ensemble_changed": "the ensemble is not the one that the request was accepted for",
    "engine_failed": "the networks could not be run",
    "input_lost": "the images are no longer stored",
    "result_too_large": "a certificate is larger than the service can store",
    "internal": "an internal error of the service",
}
"""Every code that a failed certification can have."""


def type_uri(code: str) -> str:
    """The `type` of a problem: a URN, which names it and is not an address."""
    return f"urn:smoothcert:problem:{code}"
