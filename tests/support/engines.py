"""Small ensembles and procedures for the tests of the engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.sampling import NoisyImage
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Procedure
from smoothcert.procedures.protocol import draw

SHAPE = (3, 4, 4)
NOISE = Gaussian(0.25)
DEVICE = os.environ.get("SMOOTHCERT_TEST_DEVICE", "cpu")
"""The device of the ensembles of these tests; `make gpu` names a GPU."""


class Patches(nn.Module):
    """A small random convolutional network with four classes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))  # type: ignore[no-any-return]


def ensemble(k: int = 3, consensus: int | None = None, batch: int = 32) -> Ensemble:
    networks = [Patches(seed) for seed in range(k)]
    return assemble(
        networks,
        classes=("a", "b", "c", "d"),
        input_shape=SHAPE,
        consensus=consensus,
        batch=batch,
        device=DEVICE,
        name="patches",
    )


def images(n: int) -> list[Tensor]:
    torch.manual_seed(11)
    return list(torch.rand(n, *SHAPE))


def draws(*sizes: int) -> Procedure:
    """A procedure that draws this many samples each time and keeps the counts; its verdict is a list of them."""
    seen = []
    for size in sizes:
        seen.append((yield from draw(size)))
    return seen  # type: ignore[return-value]


def counts_by_hand(
    voters: Ensemble, image: Tensor, seed: str, index: int, sizes: list[int], noise: Noise = NOISE
) -> list[tuple[int, ...]]:
    """The counts by definition: draw all noise of a draw at once, then `classify`."""
    noisy, found, start = NoisyImage(noise, image.to(voters.device), seed, index), [], 0
    for size in sizes:
        out = torch.empty(size, *SHAPE, device=voters.device)
        noisy.sample(out, start)
        found.append(tuple(np.bincount(voters.classify(out).classes.cpu().numpy(), minlength=5).tolist()))
        start += size
    return found


def endless() -> Procedure:
    while True:
        yield 32


def until(true: Callable[[], bool]) -> None:
    """Wait until `true()` holds; fail after 30 seconds."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)
