"""Errors of the engine.

SmoothcertError
└── EngineError
    ├── MemberError (also a ValueError)          a network that cannot be a member of this ensemble
    │   └── ClassCountError                      a network without one logit for each class
    ├── NormalisationError (also a ValueError)   means and standard deviations that do not belong together
    ├── VotingError (also a ValueError)          an unknown rule, a K outside 1..k, weights that are not the members'
    ├── BatchError (also a ValueError)           a batch of another shape or dtype than the ensemble takes
    ├── PrecisionError (also a ValueError)       a precision that is unknown, or that the device does not survive
    ├── RuntimeNameError (also a ValueError)     a runtime that is unknown, or that does not compute on the device
    ├── PixelsError (also a ValueError)          an image that cannot be certified as it is
    ├── StreamError (also a ValueError)          a seed or an image index that names no stream of noise
    ├── DeviceError (also a ValueError)          an ensemble on another device than the engine
    ├── RemoteError                              an endpoint that is away, not allowed, or answers otherwise than asked
    ├── CheckpointError                          a checkpoint that does not belong to this run
    ├── RunCanceledError                         somebody canceled the run
    ├── ClosedError                              the engine was closed
    └── ForkedError                              a Smoothed whose threads are in the parent of this process
"""

from __future__ import annotations

from smoothcert.errors import SmoothcertError


class EngineError(SmoothcertError):
    """The root of this tree."""


class MemberError(EngineError, ValueError):
    """A network that cannot be a member of this ensemble."""


class ClassCountError(MemberError):
    """A network that does not give one logit for each class."""


class NormalisationError(EngineError, ValueError):
    """Means and standard deviations that do not belong together."""


class VotingError(EngineError, ValueError):
    """An unknown voting rule, a K outside 1..k, or weights that are not the members'."""


class BatchError(EngineError, ValueError):
    """A batch of another shape or dtype than the ensemble takes."""


class PrecisionError(EngineError, ValueError):
    """A precision that is unknown, or that the device does not survive."""


class RuntimeNameError(EngineError, ValueError):
    """A runtime that is unknown, or that does not compute on the device."""


class PixelsError(EngineError, ValueError):
    """An image that cannot be certified as it is."""


class StreamError(EngineError, ValueError):
    """A seed or an image index that names no stream of noise."""


class DeviceError(EngineError, ValueError):
    """An ensemble on another device than the engine."""


class RemoteError(EngineError):
    """An endpoint that is away, not allowed, or answers otherwise than it was asked."""


class CheckpointError(EngineError):
    """A checkpoint that does not belong to this run."""


class RunCanceledError(EngineError):
    """Somebody canceled the run."""


class ClosedError(EngineError):
    """The engine was closed."""


class ForkedError(EngineError):
    """A Smoothed whose threads are in the parent of this process."""


def reason(error: BaseException) -> str:
    """The type and message of a foreign error in one line.

    A message of the TorchScript interpreter is a traceback of several lines, of which the last says what happened.
    """
    lines = str(error).strip().splitlines() or [""]
    if any(line.startswith("Traceback of TorchScript") for line in lines):
        return lines[-1].strip()
    return f"{type(error).__name__}: {' '.join(' '.join(lines).split())}"
