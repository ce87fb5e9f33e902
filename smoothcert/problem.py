"""Problems (RFC 9457): what the service answers where it cannot do what was asked. `code` is stable."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field


class Failure(BaseModel):
    """Why a certification that had been accepted ended without an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    code: str
    detail: str


class FieldError(BaseModel):
    """One place of a request, and what is wrong there."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    field: str
    message: str


class Problem(BaseModel):
    """The body of every answer that is an error."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    code: str
    request_id: str
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A kind of problem: its HTTP status and its title."""

    status: int
    title: str


KINDS: dict[str, Kind] = {
    "bad_request": Kind(400, "The request cannot be read"),
    "malformed_json": Kind(400, "The body is not JSON"),
    "malformed_multipart": Kind(400, "The body is not a multipart form"),
    "malformed_npy": Kind(400, "The body is not an npy array"),
    "unauthorized": Kind(401, "A valid API key is needed"),
    "cross_site": Kind(403, "Not from a page of another site"),
    "not_found": Kind(404, "Not found"),
    "unknown_ensemble": Kind(404, "There is no such ensemble"),
    "unknown_certification": Kind(404, "There is no such certification"),
    "method_not_allowed": Kind(405, "Not with this method"),
    "not_acceptable": Kind(406, "Not in a form that the request accepts"),
    "too_slow": Kind(408, "The request came too slowly"),
    "idempotency_conflict": Kind(409, "The Idempotency-Key was used for another request"),
    "already_ended": Kind(409, "The certification has ended"),
    "still_running": Kind(409, "The certification has not ended"),
    "expired": Kind(410, "The certification has expired"),
    "too_large": Kind(413, "The request is too large"),
    "too_many_images": Kind(413, "The request has too many images"),
    "unsupported_media_type": Kind(415, "Not a content type that is understood here"),
    "misdirected": Kind(421, "Not a name of this service"),
    "invalid_request": Kind(422, "A field of the request is wrong"),
    "invalid_image": Kind(422, "An image cannot be certified as it is"),
    "noise_mismatch": Kind(422, "The ensemble was trained for another noise"),
    "radius_out_of_reach": Kind(422, "The radius can never be proved like this"),
    "too_many_samples": Kind(422, "More samples than a certification may draw"),
    "invalid_certificate": Kind(422, "Not a certificate"),
    "too_many_failures": Kind(429, "Too many requests with a wrong key"),
    "queue_full": Kind(429, "The queue is full"),
    "too_many_certifications": Kind(429, "Too many certifications of this key at a time"),
    "head_too_large": Kind(431, "The head of the request is too large"),
    "internal": Kind(500, "Internal error"),
    "unavailable": Kind(503, "The service is not available"),
    "overloaded": Kind(503, "The service is overloaded"),
    "not_ready": Kind(503, "The service is not ready"),
}
"""Every code that an answer can have."""

FAILURES: dict[str, str] = {
    "worker_died": "the workers that tried it died",
    "deadline_exceeded": "there was no answer before the deadline",
    "ensemble_changed": "the ensemble is not the one that the request was accepted for",
    "engine_failed": "the networks could not be run",
    "input_lost": "the images are no longer there",
    "internal": "a mistake of the service",
}
"""Every code that a failed certification can have."""


def type_uri(code: str) -> str:
    """The `type` of a problem: a name, not an address."""
    return f"urn:smoothcert:problem:{code}"
