"""Images whose class is the direction of a faint grating, and small networks that are trained on them in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from smoothcert.noise import Noise

CLASSES = ("horizontal", "rising", "vertical", "falling")


def gratings(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images [count, 3, 16, 16] in [0, 1] of random colour and phase, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(CLASSES)
    angle = labels.view(-1, 1, 1, 1) * math.pi / len(CLASSES)
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    phase = 2 * math.pi * torch.rand(count, 1, 1, 1, generator=generator)
    colour = 0.3 + 0.4 * torch.rand(count, 3, 1, 1, generator=generator)
    wave = torch.sin(math.pi / 2 * (rows * torch.sin(angle) + columns * torch.cos(angle)) + phase)
    return colour + 0.12 * wave, labels


class Directions(nn.Module):
    """Two convolutions with batch norm, and the mean over the image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 5, padding=2), nn.BatchNorm2d(16)
        self.second, self.other_norm = nn.Conv2d(16, 16, 5, padding=2), nn.BatchNorm2d(16)
        self.last = nn.Linear(16, len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.last(torch.relu(self.other_norm(self.second(x))).mean((2, 3)))  # type: ignore[no-any-return]


def as_they_are(images: Tensor) -> Tensor:
    return images


@cache
def trained(
    noise: Noise | None = None, present: Callable[[Tensor], Tensor] = as_they_are, steps: int = 120
) -> nn.Module:
    """A network in eval mode that was trained with this noise on images presented in this way."""
    torch.manual_seed(0)
    network, (images, labels) = Directions(), gratings(2000, seed=1)
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(0, len(images), (64,))
        shown = images[rows] if noise is None else noise.perturb(images[rows])
        loss = nn.functional.cross_entropy(network(present(shown)), labels[rows])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return network.eval()
