"""Everything that the workers raise on purpose.

WorkerError
├── ImageError (also a ValueError)    an image that cannot be certified as it is
├── CheckpointError                   a checkpoint that does not belong to this certification
├── CanceledError                     somebody canceled the certification
└── ClosedError                       the engine was closed
"""

from __future__ import annotations


class WorkerError(Exception):
    """The root: catch this to catch them all."""


class ImageError(WorkerError, ValueError):
    """An image that cannot be certified as it is."""


class CheckpointError(WorkerError):
    """A checkpoint that does not belong to this certification."""


class CanceledError(WorkerError):
    """Somebody canceled the certification."""


class ClosedError(WorkerError):
    """The engine was closed."""
