"""A slow network that crashes its process, hangs, or asks for all memory on images of a certain mean."""

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
"""The means of the images on which it crashes, hangs and asks for memory."""
PAUSE_S = float(os.environ.get("FAULTS_PAUSE_S", "0"))
"""The seconds that each forward pass of a worker takes; the reference does not wait."""
GREY = 30 / 63
"""The value of every pixel at which the two members disagree most."""


class Mortal(Trivial):
    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((1, 2, 3))
        if (means - DEADLY).abs().min() < 0.01:
            ctypes.string_at(0)  # this is a segmentation fault
        if (means - ENDLESS).abs().min() < 0.01:
            time.sleep(600)
        if (means - HUNGRY).abs().min() < 0.01:
            torch.empty(1 << 60, dtype=torch.uint8)
        time.sleep(PAUSE_S)
        return super().forward(x)


def mortal(classes: int) -> nn.Module:
    """The callable that ensemble.toml names."""
    return Mortal(classes)


def flat(value: float) -> npt.NDArray[np.float32]:
    """An image in which every pixel is the same."""
    return np.full(SHAPE, value, np.float32)


DEVIATION = SIGMA / math.sqrt(math.prod(SHAPE))
"""The standard deviation of the mean of a noisy image."""
ORDINARY = tuple(flat(GREY + shift * DEVIATION) for shift in (0.9, 1.0, 1.1))
"""Images whose counts differ from seed to seed; a radius of SIGMA takes nearly the whole budget."""
