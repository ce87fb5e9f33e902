"""Everything that a client raises on purpose. `BY_CODE` and `FAILED_BY_CODE` say which code gives which class.

SmoothcertError                          smoothcert/errors.py
└── ClientError                          has code, status, detail, request_id, errors, retry_after, attempts
    ├── ImageError (also a ValueError)   something that cannot be sent as an image
    ├── NoAnswerError                    the service cannot be reached: says where it was tried
    ├── VersionError                     an answer that this version does not understand
    ├── WaitTimeoutError (TimeoutError)  a certification has not ended within `wait_timeout`
    ├── CertificationFailedError         a certification ended without an answer; has the certification
    │   ├── WorkerDiedError, DeadlineExceededError, EnsembleChangedError, EngineFailedError, InputLostError
    │   └── CanceledError                it was canceled
    └── AnswerError                      the service said no
        ├── BadRequestError              it cannot read the request
        ├── UnauthorizedError            the key is missing or wrong
        ├── NotFoundError
        │   ├── UnknownEnsembleError, UnknownCertificationError
        │   └── ExpiredError             the certification has been forgotten
        ├── ConflictError                the Idempotency-Key belongs to another request
        │   └── AlreadyEndedError, StillRunningError
        ├── TooLargeError                too many bytes, pixels or images for one request
        ├── InvalidRequestError (also a ValueError), found here or by the service
        │   ├── InvalidImageError, InvalidCertificateError, NoiseMismatchError, TooManySamplesError
        │   └── RadiusOutOfReachError    says the largest radius that could be proved
        ├── BusyError                    later: retry_after says when
        └── ServerError                  a mistake of the service, or it is not available
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
    """What a client raises. `code` is stable; `status` and `request_id` are None where no service has answered."""

    codes: ClassVar[tuple[str, ...]] = ("client",)
    """Those that give this class; the first stands where none is said."""
    hint: ClassVar[str] = ""
    """What to do about it."""

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
        """Seconds after which it might work."""
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
    """Something that cannot be sent as an image."""

    codes = ("unreadable_image",)


class NoAnswerError(ClientError):
    """The service cannot be reached, or does not answer."""

    codes = ("no_answer",)
    sent = True
    """Whether the service may have got the request all the same."""

    @property
    def passing(self) -> bool:
        """It may be back in a moment."""
        return True


class VersionError(ClientError):
    """An answer that this version of the client does not understand."""

    codes = ("version_mismatch",)


class WaitTimeoutError(ClientError, TimeoutError):
    """A certification has not ended within the time given for it."""

    codes = ("wait_timeout",)
    certification: Certification | None = None
    """As it was then."""


# --- certifications that ended without an answer


class CertificationFailedError(ClientError):
    """A certification ended without an answer."""

    codes = ("internal",)
    certification: Certification | None = None


class WorkerDiedError(CertificationFailedError):
    """The workers that tried it died."""

    codes = ("worker_died",)


class DeadlineExceededError(CertificationFailedError):
    """There was no answer before `deadline_s`."""

    codes = ("deadline_exceeded",)


class EnsembleChangedError(CertificationFailedError):
    """The ensemble is not the one that the request was accepted for."""

    codes = ("ensemble_changed",)


class EngineFailedError(CertificationFailedError):
    """The networks could not be run."""

    codes = ("engine_failed",)


class InputLostError(CertificationFailedError):
    """The images are no longer there."""

    codes = ("input_lost",)


class CanceledError(CertificationFailedError):
    """It was canceled."""

    codes = ("canceled",)


# --- answers that are problems


class AnswerError(ClientError):
    """The service said no."""

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


class NotFoundError(AnswerError):
    """There is no such thing."""

    codes = ("not_found",)


class UnknownEnsembleError(NotFoundError):
    """There is no such ensemble."""

    codes = ("unknown_ensemble",)


class UnknownCertificationError(NotFoundError):
    """There is no such certification, or it is another key's."""

    codes = ("unknown_certification",)
    hint = "results are kept for a limited time, by default for a day"


class ExpiredError(NotFoundError):
    """The certification has been forgotten."""

    codes = ("expired",)
    hint = "submit it again"


class ConflictError(AnswerError):
    """Not in the state that things are in."""

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
    """A field of the request is wrong; found by the service, or here before anything was sent."""

    codes = ("invalid_request",)


class InvalidImageError(InvalidRequestError):
    """An image that the ensemble does not take as it is."""

    codes = ("invalid_image",)


class NoiseMismatchError(InvalidRequestError):
    """The ensemble was trained for another sigma."""

    codes = ("noise_mismatch",)


class RadiusOutOfReachError(InvalidRequestError):
    """The radius can never be proved like this; the detail has the largest that can be."""

    codes = ("radius_out_of_reach",)


class TooManySamplesError(InvalidRequestError):
    """More samples than a certification may draw."""

    codes = ("too_many_samples",)


class InvalidCertificateError(InvalidRequestError):
    """Not a certificate."""

    codes = ("invalid_certificate",)


class BusyError(AnswerError):
    """The service has too much to do at the moment."""

    codes = ("queue_full", "too_many_certifications", "overloaded")


class ServerError(AnswerError):
    """A mistake of the service, or it is not available."""

    codes = ("internal", "unavailable", "not_ready")


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
"""For codes of a later version."""
