"""The errors of the client. `BY_CODE` and `FAILED_BY_CODE` map each code of the service to its class.

SmoothcertError                          smoothcert/errors.py
└── ClientError                          with code, status, detail, request_id, errors, retry_after, attempts
    ├── ImageError (also a ValueError)   a value that cannot be sent as an image
    ├── NoAnswerError                    the service cannot be reached; names the address
    ├── VersionError                     a response that this version does not understand
    ├── WaitTimeoutError (TimeoutError)  a certification has not ended within `wait_timeout`
    ├── CertificationFailedError         a certification ended without certificates; has the certification
    │   ├── WorkerDiedError, DeadlineExceededError, EnsembleChangedError, EngineFailedError, InputLostError,
    │   │   ResultTooLargeError
    │   └── CanceledError                the certification was canceled
    └── AnswerError                      the service refused the request
        ├── BadRequestError              the service cannot read the request
        ├── UnauthorizedError            the key is missing or wrong
        ├── NotPermittedError            the key does not have the right
        ├── NotFoundError
        │   ├── UnknownEnsembleError, UnknownCertificationError
        │   └── ExpiredError             the certification has expired and was deleted
        ├── ConflictError                the Idempotency-Key belongs to another request
        │   └── AlreadyEndedError, StillRunningError
        ├── TooLargeError                too many bytes, pixels or images for one request
        ├── InvalidRequestError (also a ValueError), found here or by the service
        │   ├── InvalidImageError, InvalidCertificateError, NoiseMismatchError, ProcedureMismatchError,
        │   │   TooManySamplesError
        │   └── RadiusOutOfReachError    names the largest radius that could be proved
        ├── BusyError                    the service is busy; retry_after says when to try again
        └── ServerError                  the service failed, or it is not available
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, TypeVar

from smoothcert.errors import SmoothcertError
from smoothcert.problem import FieldError

if TYPE_CHECKING:
    from smoothcert.certification import Certification

Kind = TypeVar("Kind", bound="ClientError")

REQUEST_TIMEOUT, TOO_MANY_REQUESTS, SERVER_ERRORS = 408, 429, range(500, 600)


class ClientError(SmoothcertError):
    """The base of all errors of a client. `code` is stable; `status` and `request_id` are None without a response."""

    codes: ClassVar[tuple[str, ...]] = ("client",)
    """The codes that give this class; the first is the default."""
    hint: ClassVar[str] = ""
    """What to do about it, in Python."""

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        errors: Iterable[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail, self.status, self.request_id = detail, status, request_id
        self.code = code or self.codes[0]
        self.errors = tuple(errors)
        """The fields of the request that are wrong."""
        self.retry_after = retry_after
        """The seconds after which the request may succeed; None if the service has not named any."""
        self.attempts = 1
        """How often the request was sent."""

    def __str__(self) -> str:
        later = "" if self.retry_after is None else f"try again in {self.retry_after:g} s"
        return "; ".join(filter(None, (self.detail, self.hint, later)))

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in (REQUEST_TIMEOUT, TOO_MANY_REQUESTS) or self.status in SERVER_ERRORS


class ImageError(ClientError, ValueError):
    """A value that cannot be sent as an image."""

    codes = ("unreadable_image",)


class NoAnswerError(ClientError):
    """The service cannot be reached, or does not answer."""

    codes = ("no_answer",)
    sent = True
    """Whether the service may have received the request."""
    hopeless = False
    """Whether nothing listens at the address, and nothing has listened there before: a second try would not help."""

    @property
    def passing(self) -> bool:
        return not self.hopeless


class VersionError(ClientError):
    """A response that this version of the client does not understand."""

    codes = ("version_mismatch",)


class WaitTimeoutError(ClientError, TimeoutError):
    """A certification has not ended within the time given for it."""

    codes = ("wait_timeout",)
    certification: Certification | None = None
    """The certification at that time."""


# --- certifications that ended without certificates


class CertificationFailedError(ClientError):
    """A certification ended without certificates."""

    codes = ("internal",)
    certification: Certification | None = None


class WorkerDiedError(CertificationFailedError):
    """The workers that tried it died."""

    codes = ("worker_died",)


class DeadlineExceededError(CertificationFailedError):
    """The certification had not ended before `deadline_s`."""

    codes = ("deadline_exceeded",)


class EnsembleChangedError(CertificationFailedError):
    """The ensemble is not the one that the request was accepted for."""

    codes = ("ensemble_changed",)


class EngineFailedError(CertificationFailedError):
    """The networks could not be run."""

    codes = ("engine_failed",)


class InputLostError(CertificationFailedError):
    """The images are no longer stored."""

    codes = ("input_lost",)


class ResultTooLargeError(CertificationFailedError):
    """A certificate is larger than the service can store."""

    codes = ("result_too_large",)


class CanceledError(CertificationFailedError):
    """The certification was canceled."""

    codes = ("canceled",)


# --- responses that are problems


class AnswerError(ClientError):
    """The service refused the request."""

    codes: ClassVar[tuple[str, ...]] = ("unexpected_answer",)


class BadRequestError(AnswerError):
    """The service cannot read the request."""

    codes = (
        "bad_request",
        "cross_site",
        "head_too_large",
        "malformed_json",
        "malformed_multipart",
        "malformed_npy",
        "method_not_allowed",
        "misdirected",
        "not_acceptable",
        "too_slow",
        "unsupported_media_type",
    )


class UnauthorizedError(AnswerError):
    """The key is missing or wrong."""

    codes = ("unauthorized", "too_many_failures")
    hint = "give the key as Client(api_key=...) or in SMOOTHCERT_API_KEY"


class NotPermittedError(AnswerError):
    """The key does not have the right to ask for this, for example for priority."""

    codes = ("not_permitted",)


class NotFoundError(AnswerError):
    """The path or the name in it is unknown."""

    codes: ClassVar[tuple[str, ...]] = ("not_found",)


class UnknownEnsembleError(NotFoundError):
    """There is no such ensemble, or the workers could not load it; the detail says which."""

    codes = ("unknown_ensemble", "ensemble_not_loaded")


class UnknownCertificationError(NotFoundError):
    """There is no such certification, or it belongs to another key."""

    codes = ("unknown_certification",)
    hint = "results are kept for a limited time, by default for a day"


class ExpiredError(NotFoundError):
    """The certification has expired and was deleted."""

    codes = ("expired",)
    hint = "submit it again"


class ConflictError(AnswerError):
    """The request does not fit the state of the certification, or its key belongs to another request."""

    codes = ("idempotency_conflict",)


class AlreadyEndedError(ConflictError):
    """The certification has ended."""

    codes = ("already_ended",)


class StillRunningError(ConflictError):
    """The certification has not ended."""

    codes = ("still_running",)


class TooLargeError(AnswerError):
    """Too many bytes, pixels or images for one request."""

    codes = ("too_large", "too_many_images")
    hint = "certify_many takes any number of images"


class InvalidRequestError(AnswerError, ValueError):
    """A field of the request is wrong; found by the service, or by the client before anything was sent."""

    codes: ClassVar[tuple[str, ...]] = ("invalid_request",)


class InvalidImageError(InvalidRequestError):
    """An image that the ensemble does not accept as it is."""

    codes = ("invalid_image", "image_off_grid")


class NoiseMismatchError(InvalidRequestError):
    """The ensemble was trained for another noise."""

    codes = ("noise_mismatch",)


class ProcedureMismatchError(InvalidRequestError):
    """The procedure does not go with the noise; the detail names one that does."""

    codes = ("procedure_mismatch",)


class RadiusOutOfReachError(InvalidRequestError):
    """The radius can never be proved by this procedure; the detail names the largest that can."""

    codes = ("radius_out_of_reach",)


class TooManySamplesError(InvalidRequestError):
    """The request could draw more samples than a certification may."""

    codes = ("too_many_samples",)


class InvalidCertificateError(InvalidRequestError):
    """The text is not a certificate."""

    codes = ("invalid_certificate",)


class BusyError(AnswerError):
    """The service has too much to do at the moment."""

    codes = ("queue_full", "too_many_certifications", "too_many_requests", "overloaded", "storage_full")


class ServerError(AnswerError):
    """The service failed, or it is not available."""

    codes = ("internal", "unavailable", "unconfirmed", "not_ready", "archive_damaged")


def _tree(root: type[Kind]) -> Iterator[type[Kind]]:
    yield root
    for branch in root.__subclasses__():
        yield from _tree(branch)


BY_CODE = {code: kind for kind in _tree(AnswerError) for code in kind.codes}
"""The class of every code in `smoothcert.problem.KINDS`."""
FAILED_BY_CODE = {code: kind for kind in _tree(CertificationFailedError) for code in kind.codes}
"""The class of every code in `smoothcert.problem.FAILURES`."""
BY_STATUS: dict[int, type[AnswerError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    413: TooLargeError,
    422: InvalidRequestError,
    429: BusyError,
}
"""The class by HTTP status, for codes of a later version."""
