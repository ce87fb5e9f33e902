"""Everything that the workers raise on purpose.

WorkerError
├── HoldingsError                     an ensemble that this worker does not hold
├── ImagesLostError                    the images of a certification are no longer there
├── LateError                         the deadline of a certification has passed
├── ReplayError                       a certificate that cannot be repeated here
├── ClockError                        it is another time here than at Redis
├── HealthError                       no worker of this host is alive
"""

from __future__ import annotations

from smoothcert.errors import SmoothcertError


class WorkerError(SmoothcertError):
    """The root: catch this to catch them all."""


class HoldingsError(WorkerError):
    """An ensemble that this worker does not hold."""


class ImagesLostError(WorkerError):
    """The images of a certification are no longer there."""


class ClockError(WorkerError):
    """It is another time here than at Redis."""


class LateError(WorkerError):
    """The deadline of a certification has passed."""


class ReplayError(WorkerError):
    """A certificate that cannot be repeated here."""


class HealthError(WorkerError):
    """No worker of this host is alive."""
