"""A network that takes its time, and on images of a certain mean brings its process down, hangs or wants all memory."""

from __future__ import annotations

import ctypes
import math
import os
import time

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tests.support.worker_networks import SHAPE, Trivial
from tests.support.zoo import SIGMA

ARCHITECTURE = "tests.faults.networks:mortal"
DEADLY, ENDLESS, HUNGRY = 0.111, 0.222, 0.333
"""The means of those images."""
PAUSE_S = float(os.environ.get("SMOOTHCERT_PAUSE_S", "0"))
"""For each forward pass of a worker; the process that compares does not wait."""
GREY = 30 / 63
"""Of every pixel, where the members are of two minds."""


class Mortal(Trivial):
    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((1, 2, 3))
        if (means - DEADLY).abs().min() < 0.01:
            ctypes.string_at(0)  # a real crash: the system ends the process
        if (means - ENDLESS).abs().min() < 0.01:
            time.sleep(600)
        if (means - HUNGRY).abs().min() < 0.01:
            torch.empty(1 << 60, dtype=torch.uint8)
        time.sleep(PAUSE_S)
        return super().forward(x)


def mortal(classes: int) -> nn.Module:
    """For the registry."""
    return Mortal(classes)


def flat(value: float) -> npt.NDArray[np.float32]:
    """An image in which every pixel is the same."""
    return np.full(SHAPE, value, np.float32)


DEVIATION = SIGMA / math.sqrt(math.prod(SHAPE))
"""Of the mean of a noisy image."""
ORDINARY = tuple(flat(GREY + shift * DEVIATION) for shift in (0.9, 1.0, 1.1))
"""Images whose counts differ from seed to seed; a radius of SIGMA takes nearly all samples that there are."""
