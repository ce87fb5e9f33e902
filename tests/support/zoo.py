"""A zoo of small ensembles for worker processes of the tests."""

from __future__ import annotations

from pathlib import Path

import torch

from models.addition import Addition, add
from tests.support.worker_networks import SHAPE, state

ALLOWED = ("tests.support.worker_networks:trivial", "tests.support.worker_networks:moody")
SIGMA = 0.02


def make_zoo(folder: Path) -> Path:
    """Two ensembles of two members: `trivial` and `moody`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, architecture in zip(("trivial", "moody"), ALLOWED, strict=True):
        files = []
        for mark in (0.0, 1.0):
            files.append(folder.parent / f"{name}-{int(mark)}.pt")
            torch.save(state(mark), files[-1])
        addition = Addition(
            classes=("dark", "light"), input_shape=SHAPE, architecture=architecture, sigma=SIGMA, method="by hand"
        )
        add(name, files, addition, zoo=folder, allowed_imports=frozenset(ALLOWED))
    return folder
