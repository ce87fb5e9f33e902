"""Training in the process of the test, on a few small images, and a training that does not end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import nn

from models.data import Images
from models.data.augmentation import crops_and_flips
from models.training.loop import Preset, TrainingProgress, train
from models.training.members import Task
from models.training.method import Method
from smoothcert.errors import SmoothcertError

TWO_EPOCHS = Preset(epochs=2, batch=8, rate=0.1, schedule="one-cycle")


def images(n: int = 40) -> Images:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = rng.integers(0, 100, (n, 3, 8, 8)) + 150 * labels[:, None, None, None]
    return Images("dark or bright", pixels.astype(np.uint8), labels.astype(np.int64), ("dark", "bright"))


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )


def trained(
    net: nn.Module,
    method: Method,
    preset: Preset,
    *,
    n: int = 40,
    seed: int = 1,
    checkpoint: Path,
    report: Callable[[TrainingProgress], None] = lambda _: None,
) -> float:
    """Train on n images with crops and flips; the accuracy under noise on those images."""
    own = {"augment": crops_and_flips, "seed": seed, "checkpoint": checkpoint, "report": report}
    return train(net, method, preset, images(n), images(n), **own)[1]


def ending(task: Task) -> SmoothcertError | None:
    """Train a member; returns the error that ended the training early, as the parent process gets it, if any."""
    messages: Any = SimpleQueue()
    with suppress(SystemExit):
        task.run(messages)
    last = None
    while not messages.empty():
        _, last = messages.get()
    return last if isinstance(last, SmoothcertError) else None


class Endless(Task):
    """A member whose training reports to its process and does not end."""

    def run(self, messages: Any) -> None:
        (self.out / "pid").write_text(str(os.getpid()))
        signal.pause()
