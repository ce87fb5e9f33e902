"""smoothcert: prove that a classifier's answer on an image cannot be flipped by a small perturbation.

    with smoothcert.Client() as client:
        certificate = client.certify("ship.png", radius=0.25, procedure="sequential")

What is named here is imported when it is first used, so that `import smoothcert` costs nothing.
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
        RadiusOutOfReachError,
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
    from smoothcert.errors import CertificateError, CountsError, DomainError, LedgerError, SmoothcertError

__version__ = "0.1.0"

__all__ = [
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
    "DomainError",
    "EngineFailedError",
    "EnsembleChangedError",
    "ExpiredError",
    "ImageError",
    "InputLostError",
    "InvalidCertificateError",
    "InvalidImageError",
    "InvalidRequestError",
    "LedgerError",
    "NoAnswerError",
    "NoiseMismatchError",
    "NotFoundError",
    "RadiusOutOfReachError",
    "ServerError",
    "SmoothcertError",
    "StillRunningError",
    "TooLargeError",
    "TooManySamplesError",
    "UnauthorizedError",
    "UnknownCertificationError",
    "UnknownEnsembleError",
    "VersionError",
    "WaitTimeoutError",
    "WorkerDiedError",
    "__version__",
    "errors",
]

_HOMES = {"AsyncClient": "smoothcert.client", "Client": "smoothcert.client", "Certificate": "smoothcert.certificate"}
"""Of what is no error; the errors of the client are at home beside it."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if hasattr(errors, name):
        return getattr(errors, name)
    return getattr(import_module(_HOMES.get(name, "smoothcert.client.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
