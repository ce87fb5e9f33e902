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

from typing import TYPE_CHECKING, Any

from smoothcert import errors
from smoothcert.extras import is_installed, lazy_attribute

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
        ProcedureMismatchError,
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
    from smoothcert.engine.smoothed import Smoothed
    from smoothcert.engine.warning import SmoothedWarning
    from smoothcert.errors import (
        AttestationError,
        CertificateError,
        CountsError,
        DomainError,
        LedgerError,
        SmoothcertError,
    )
    from smoothcert.extras import MissingExtraError
    from smoothcert.implication import Implication, implied
    from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Splitting, Uniform
    from smoothcert.procedures import Adaptive, Exact, Fixed, Largest, Optimal, Sequential
    from smoothcert.question import Question
    from smoothcert.report import Report
    from smoothcert.verification import Verification, verify

__version__ = "0.2.0"

__all__ = [
    "Adaptive",
    "AlreadyEndedError",
    "AnswerError",
    "AsyncClient",
    "AttestationError",
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
    "Exact",
    "ExpiredError",
    "Fixed",
    "Gaussian",
    "GaussianLinf",
    "ImageError",
    "Implication",
    "InputLostError",
    "InvalidCertificateError",
    "InvalidImageError",
    "InvalidRequestError",
    "Largest",
    "LedgerError",
    "MissingExtraError",
    "NoAnswerError",
    "Noise",
    "NoiseMismatchError",
    "NotFoundError",
    "NotPermittedError",
    "Optimal",
    "ProcedureMismatchError",
    "Question",
    "RadiusOutOfReachError",
    "Replacement",
    "Report",
    "ResultTooLargeError",
    "RoundedGaussian",
    "Sequential",
    "ServerError",
    "SmoothcertError",
    "Smoothed",
    "SmoothedWarning",
    "Splitting",
    "StillRunningError",
    "TooLargeError",
    "TooManySamplesError",
    "UnauthorizedError",
    "Uniform",
    "UnknownCertificationError",
    "UnknownEnsembleError",
    "Verification",
    "VersionError",
    "WaitTimeoutError",
    "WorkerDiedError",
    "__version__",
    "errors",
    "implied",
    "verify",
]

_MODULES = {
    "Adaptive": "smoothcert.procedures",
    "AsyncClient": "smoothcert.client",
    "Certificate": "smoothcert.certificate",
    "Client": "smoothcert.client",
    "Diagnosis": "smoothcert.diagnosis",
    "Exact": "smoothcert.procedures",
    "Fixed": "smoothcert.procedures",
    "Gaussian": "smoothcert.noise",
    "GaussianLinf": "smoothcert.noise",
    "Implication": "smoothcert.implication",
    "Largest": "smoothcert.procedures",
    "MissingExtraError": "smoothcert.extras",
    "Noise": "smoothcert.noise",
    "Optimal": "smoothcert.procedures",
    "Question": "smoothcert.question",
    "Replacement": "smoothcert.noise",
    "Report": "smoothcert.report",
    "RoundedGaussian": "smoothcert.noise",
    "Sequential": "smoothcert.procedures",
    "Smoothed": "smoothcert.engine.smoothed",
    "SmoothedWarning": "smoothcert.engine.warning",
    "Splitting": "smoothcert.noise",
    "Uniform": "smoothcert.noise",
    "Verification": "smoothcert.verification",
    "implied": "smoothcert.implication",
    "verify": "smoothcert.verification",
}
"""Modules of the lazily imported public names. Errors that are not listed are in `smoothcert.client.errors`."""
_NEEDED = {"AsyncClient": "httpx2", "Client": "httpx2", "Smoothed": "torch"}
"""The optional packages that public names need."""
_NAMES = frozenset(__all__)

if not TYPE_CHECKING:  # so that `import *` and `inspect.getmembers` work without the extras
    __all__ = [name for name in __all__ if name not in _NEEDED or is_installed(_NEEDED[name])]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if hasattr(errors, name):
        return getattr(errors, name)
    return lazy_attribute(name, _MODULES.get(name, "smoothcert.client.errors"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
