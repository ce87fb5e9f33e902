"""Everything that the workers raise on purpose.

WorkerError
├── ImageError (also a ValueError)    an image that cannot be certified as it is
├── StreamError (also a ValueError)   a seed or an image index that names no stream of noise
├── CheckpointError                   a checkpoint that does not belong to this certification
├── EngineError (also a ValueError)   an ensemble that this engine cannot run
├── HoldingsError                     an ensemble that this worker does not hold
├── InputLostError                    the images of a certification are no longer there
├── LateError                         the deadline of a certification has passed
├── ReplayError                       a certificate that cannot be repeated here
├── ClockError                        it is another time here than at Redis
├── HealthError                       no worker of this host is alive
├── CanceledError                     somebody canceled the certification
└── ClosedError                       the engine was closed
"""

from __future__ import annotations


class WorkerError(Exception):
    """The root: catch this to catch them all."""


class ImageError(WorkerError, ValueError):
    """An image that cannot be certified as it is."""


class StreamError(WorkerError, ValueError):
    """A seed or an image index that names no stream of noise."""


class CheckpointError(WorkerError):
    """A checkpoint that does not belong to this certification."""


class EngineError(WorkerError, ValueError):
    """An ensemble that this engine cannot run."""


class HoldingsError(WorkerError):
    """An ensemble that this worker does not hold."""


class InputLostError(WorkerError):
    """The images of a certification are no longer there."""


class ClockError(WorkerError):
    """It is another time here than at Redis."""


class LateError(WorkerError):
    """The deadline of a certification has passed."""


class ReplayError(WorkerError):
    """A certificate that cannot be repeated here."""


class HealthError(WorkerError):
    """No worker of this host is alive."""


class CanceledError(WorkerError):
    """Somebody canceled the certification."""


class ClosedError(WorkerError):
    """The engine was closed."""
