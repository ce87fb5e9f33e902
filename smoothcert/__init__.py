"""smoothcert: prove that a classifier's answer on an image cannot be flipped by a small perturbation.

A model in this process, with the extra `torch`:

    smoothed = smoothcert.Smoothed(model, noise=smoothcert.Gaussian(0.25))
    certificates = smoothed.certify(images, radius=0.25)

A service, with the extra `client`:

    with smoothcert.Client() as client:
        certificate = client.certify("ship.png", radius=0.25, procedure="sequential")

The public names are imported when they are first used, so that `import smoothcert` costs nothing and needs no extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcert import errors

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate
    from smoothcert.client import AsyncClient, Client
    from smoothcert.client.errors import (
        AlreadyEndedError,
        AnswerError,
        BadRequestError,
        BusyError,
        CanceledError,
        CertificationFailedError,
        ClientError,
        ConflictError,
        DeadlineExceededError,
        EngineFailedError,
        EnsembleChangedError,
        ExpiredError,
        ImageError,
        InputLostError,
        InvalidCertificateError,
        InvalidImageError,
        InvalidRequestError,
        NoAnswerError,
        NoiseMismatchError,
        NotFoundError,
        NotPermittedError,
        RadiusOutOfReachError,
        ResultTooLargeError,
        ServerError,
        StillRunningError,
        TooLargeError,
        TooManySamplesError,
        UnauthorizedError,
        UnknownCertificationError,
        UnknownEnsembleError,
        VersionError,
        WaitTimeoutError,
        WorkerDiedError,
    )
    from smoothcert.diagnosis import Diagnosis
    from smoothcert.engine.smoothed import Smoothed, SmoothedWarning
    from smoothcert.errors import CertificateError, CountsError, DomainError, LedgerError, SmoothcertError
    from smoothcert.extras import MissingExtraError
    from smoothcert.noise import Gaussian, Noise
    from smoothcert.procedures import Adaptive, Fixed, Sequential
    from smoothcert.question import Question
    from smoothcert.report import Report
    from smoothcert.verification import Verification, verify

__version__ = "0.2.0"

__all__ = [
    "Adaptive",
    "AlreadyEndedError",
    "AnswerError",
    "AsyncClient",
    "BadRequestError",
    "BusyError",
    "CanceledError",
    "Certificate",
    "CertificateError",
    "CertificationFailedError",
    "Client",
    "ClientError",
    "ConflictError",
    "CountsError",
    "DeadlineExceededError",
    "Diagnosis",
    "DomainError",
    "EngineFailedError",
    "EnsembleChangedError",
    "ExpiredError",
    "Fixed",
    "Gaussian",
    "ImageError",
    "InputLostError",
    "InvalidCertificateError",
    "InvalidImageError",
    "InvalidRequestError",
    "LedgerError",
    "MissingExtraError",
    "NoAnswerError",
    "Noise",
    "NoiseMismatchError",
    "NotFoundError",
    "NotPermittedError",
    "Question",
    "RadiusOutOfReachError",
    "Report",
    "ResultTooLargeError",
    "Sequential",
    "ServerError",
    "SmoothcertError",
    "Smoothed",
    "SmoothedWarning",
    "StillRunningError",
    "TooLargeError",
    "TooManySamplesError",
    "UnauthorizedError",
    "UnknownCertificationError",
    "UnknownEnsembleError",
    "Verification",
    "VersionError",
    "WaitTimeoutError",
    "WorkerDiedError",
    "__version__",
    "errors",
    "verify",
]

_MODULES = {
    "Adaptive": "smoothcert.procedures",
    "AsyncClient": "smoothcert.client",
    "Certificate": "smoothcert.certificate",
    "Client": "smoothcert.client",
    "Diagnosis": "smoothcert.diagnosis",
    "Fixed": "smoothcert.procedures",
    "Gaussian": "smoothcert.noise",
    "MissingExtraError": "smoothcert.extras",
    "Noise": "smoothcert.noise",
    "Question": "smoothcert.question",
    "Report": "smoothcert.report",
    "Sequential": "smoothcert.procedures",
    "Smoothed": "smoothcert.engine.smoothed",
    "SmoothedWarning": "smoothcert.engine.smoothed",
    "Verification": "smoothcert.verification",
    "verify": "smoothcert.verification",
}
"""Modules of the lazily imported public names. Errors that are not listed are in `smoothcert.client.errors`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if hasattr(errors, name):
        return getattr(errors, name)
    from smoothcert.extras import needed_by

    with needed_by(f"smoothcert.{name}"):
        return getattr(import_module(_MODULES.get(name, "smoothcert.client.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
