"""How batches go to a device and classes come back.

A GPU works on its own while the host prepares the next batch. So the engine enqueues a batch, and the transfer of its
classes, before it waits for the classes of the batch before: the device is never without work between two batches. The
classes go into pinned memory, because a copy into other memory would wait for all that was enqueued before. Waiting for
such a transfer is the only point at which the engine waits for a device.

The CPU computes in the thread that asks. A second batch on its way would gain nothing there, and delay the counts.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

ClassIndices = npt.NDArray[np.int64]


class Arrival(Protocol):
    """Classes on their way to the host."""

    def classes(self) -> ClassIndices:
        """The classes, as soon as they are there; this waits for the device."""


class Device(Protocol):
    """Where an engine runs its batches."""

    depth: int
    """The batches that may be on their way at once."""

    def fetch(self, classes: Tensor) -> Arrival:
        """Begin to transfer the classes [N], once the work that was enqueued before is done."""

    def place(self, values: npt.NDArray[np.int64]) -> Tensor:
        """Indices for the device, without waiting for it."""


class Host:
    """The CPU, where a result is there as soon as the call returns."""

    depth = 1

    def fetch(self, classes: Tensor) -> Arrival:
        return _Present(classes)

    def place(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values)


class _Present:
    def __init__(self, classes: Tensor) -> None:
        self._classes = classes

    def classes(self) -> ClassIndices:
        return self._classes.numpy()


class Accelerator:
    """A device with a queue of its own, such as a GPU."""

    depth = 2

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def fetch(self, classes: Tensor) -> Arrival:
        pinned = torch.empty(classes.shape, dtype=classes.dtype, pin_memory=True)
        pinned.copy_(classes, non_blocking=True)
        arrived = torch.Event(self._device)
        arrived.record(torch.accelerator.current_stream(self._device))
        return _Pinned(pinned, arrived)

    def place(self, values: npt.NDArray[np.int64]) -> Tensor:
        return placed(torch.from_numpy(values), self._device)


class _Pinned:
    def __init__(self, pinned: Tensor, arrived: torch.Event) -> None:
        self._pinned, self._arrived = pinned, arrived

    def classes(self) -> ClassIndices:
        self._arrived.synchronize()
        return self._pinned.numpy()


def device_of(device: torch.device) -> Device:
    """The way to work with a device of torch."""
    return Host() if device.type == "cpu" else Accelerator(device)


def placed(values: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device; through pinned memory, so that the host does not wait for the device."""
    if device.type == "cpu":
        return values
    return values.pin_memory().to(device, non_blocking=True)
