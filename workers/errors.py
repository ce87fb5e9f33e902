"""Errors of the workers.

SmoothcertError
└── WorkerError
    ├── SettingsError       settings that no worker can work with
    ├── HoldingsError       an ensemble that this worker does not hold
    ├── ImagesLostError     the images of a certification are no longer in Redis
    ├── LateError           the deadline of a certification has passed
    ├── ReplayError         a certificate that cannot be repeated here
    ├── ClockError          this machine's clock differs from that of Redis
    └── HealthError         no worker on this host is alive
"""

from __future__ import annotations

from smoothcert.errors import SmoothcertError


class WorkerError(SmoothcertError):
    """The root of this tree."""


class SettingsError(WorkerError):
    """Settings that no worker can work with."""


class HoldingsError(WorkerError):
    """An ensemble that this worker does not hold."""


class ImagesLostError(WorkerError):
    """The images of a certification are no longer in Redis."""


class LateError(WorkerError):
    """The deadline of a certification has passed."""


class ReplayError(WorkerError):
    """A certificate that cannot be repeated here."""


class ClockError(WorkerError):
    """This machine's clock differs from that of Redis."""


class HealthError(WorkerError):
    """No worker on this host is alive."""
