"""Networks that a worker process of the tests imports: small ones with known answers, and a deadly one."""

from __future__ import annotations

import os
import signal
import time

import torch
from torch import Tensor, nn

SHAPE = (3, 8, 8)
POISON, HANG, BREAK = 0.111, 0.222, 0.333
"""The means of the images that tell `Moody` what to do; every pixel of such an image is the same."""


class Trivial(nn.Module):
    """One linear layer on the channels' means: class 0 if the image is dark, class 1 if it is light.

    An image may have three channels or one.
    """

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.fc = nn.Linear(3, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.mean((2, 3)).expand(-1, 3))  # type: ignore[no-any-return]


class Moody(Trivial):
    """A slow network that kills its process, hangs or raises on images of a certain mean."""

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((1, 2, 3))
        if (means - POISON).abs().min() < 0.01:
            os.kill(os.getpid(), signal.SIGKILL)
        if (means - HANG).abs().min() < 0.01:
            time.sleep(600)
        if (means - BREAK).abs().min() < 0.01:
            raise ValueError("these pixels cannot be borne")
        time.sleep(0.01)
        return super().forward(x)


def trivial(classes: int) -> nn.Module:
    """The callable for the registry."""
    return Trivial(classes)


def moody(classes: int) -> nn.Module:
    """The callable for the registry."""
    return Moody(classes)


def state(mark: float) -> dict[str, Tensor]:
    """Weights for both: light against dark, at a grey of one half; members differ by `mark`."""
    weight = torch.tensor([[-1.0] * 3, [1.0] * 3]) * (10 + mark)
    return {"fc.weight": weight, "fc.bias": torch.tensor([15.0, -15.0])}
