"""A zoo of small ensembles for worker processes of the tests."""

from __future__ import annotations

from pathlib import Path

import torch

from models.addition import Addition, add
from smoothcert.noise import Gaussian, Noise
from tests.support.worker_networks import SHAPE, state

ALLOWED = ("tests.support.worker_networks:trivial", "tests.support.worker_networks:moody")
SIGMA = 0.02


def make_zoo(folder: Path) -> Path:
    """Two ensembles of two members: `trivial` and `moody`."""
    for name, architecture in zip(("trivial", "moody"), ALLOWED, strict=True):
        add_small(folder, name, Gaussian(SIGMA), architecture=architecture)
    return folder


def add_small(
    zoo: Path, name: str, noise: Noise, *, shape: tuple[int, int, int] = SHAPE, architecture: str = ALLOWED[0]
) -> None:
    """Add an ensemble of two members that tell dark images from light ones."""
    zoo.mkdir(parents=True, exist_ok=True)
    files = []
    for mark in (0.0, 1.0):
        files.append(zoo.parent / f"{name}-{int(mark)}.pt")
        torch.save(state(mark), files[-1])
    addition = Addition(
        classes=("dark", "light"), input_shape=shape, architecture=architecture, noise=noise, method="by hand"
    )
    add(name, files, addition, zoo=zoo, allowed_imports=frozenset(ALLOWED))
