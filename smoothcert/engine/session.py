"""The ensemble of a `Smoothed` and its sampling thread, in the process that uses them."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from torch import Tensor

from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import ForkedError, PixelsError
from smoothcert.engine.networks import Networks, image_shape


class EngineSession:
    """Builds the ensemble and starts the thread when the first images come; all images have the shape of those.

    The thread ends with `close`, or when the session is garbage collected; a call after `close` starts another.
    """

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self._lock = threading.Lock()
        self._process: int | None = None
        """The process in which the ensemble was built and the thread runs; None before the first call."""
        self._ensemble: Ensemble | None = None
        self._engine: Engine | None = None
        self._finalizer: Any = None

    def ensemble(self, images: Tensor) -> Ensemble:
        """The ensemble, built for images [N, C, H, W] of this shape when the first come."""
        self._refuse_fork()
        with self._lock:
            if self._ensemble is None:
                self._ensemble = self._networks.ensemble(images)
            ensemble = self._ensemble
        if (shape := image_shape(images)) != ensemble.input_shape:
            raise PixelsError(
                f"the images have shape {shape}, and the first ones had {ensemble.input_shape}: resize them, or make "
                f"another Smoothed for them"
            )
        return ensemble

    def engine(self, images: Tensor) -> Engine:
        """The running engine of that ensemble."""
        ensemble = self.ensemble(images)
        with self._lock:
            if self._engine is None:
                self._engine = Engine(ensemble, batch=self._networks.batch)
                self._finalizer = weakref.finalize(self, _close, self._engine, os.getpid())
            return self._engine

    def close(self) -> None:
        """End the sampling thread; certifications that are under way fail with ClosedError."""
        if self._process != os.getpid():  # nothing was started here; the lock of a fork may be held for ever
            return
        with self._lock:
            finalizer, self._engine, self._finalizer = self._finalizer, None, None
        if finalizer is not None:
            finalizer()

    def _refuse_fork(self) -> None:
        """Raise ForkedError in a child of the process that used this object.

        A child has no thread but its own: it would wait for the sampling thread for ever. A new thread would not help,
        since torch's own threads are missing there too.
        """
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise ForkedError(
                f"this Smoothed has been used in process {self._process}, and process {os.getpid()} is a fork of it, "
                f"without its threads: start processes by the method 'spawn', or fork before the first call"
            )


def _close(engine: Engine, process: int) -> None:
    """End the engine of this process; a child has none, and its copy of the engine's lock may be held for ever."""
    if os.getpid() == process:
        engine.close()
