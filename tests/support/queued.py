"""A stand-in for a device with its own queue, such as a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tests.support.engines import DEVICE


def never(classes: Tensor) -> bool:
    return False


class Queue:
    """Notes when a batch is enqueued and when its classes are read."""

    depth = 2

    def __init__(self, fails: Callable[[Tensor], bool] = never) -> None:
        self.log: list[tuple[str, int]] = []
        self.fails, self._batches = fails, 0

    def fetch(self, classes: Tensor) -> Queued:
        self.log.append(("enqueue", self._batches))
        self._batches += 1
        return Queued(self, self._batches - 1, classes)

    def place(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(DEVICE)


class Queued:
    """Classes on their way to the host."""

    def __init__(self, queue: Queue, number: int, classes: Tensor) -> None:
        self._queue, self._number, self._classes = queue, number, classes

    def classes(self) -> npt.NDArray[np.int64]:
        self._queue.log.append(("read", self._number))
        if self._queue.fails(self._classes):
            raise RuntimeError("a fault in the device")
        found: npt.NDArray[np.int64] = self._classes.cpu().numpy()
        return found
