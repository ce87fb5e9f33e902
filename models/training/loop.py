"""The loop that every training method shares.

Everything random in an epoch (order, augmentation, noise) follows from (seed, epoch), and a checkpoint is written at
the end of each epoch: a run that is killed and resumed gives the same member as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.data import Images
from models.training.checkpoint import TrainingCheckpoint
from models.training.method import Method, classifier_of, recorded
from smoothcert.engine.precision import dtype_of
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Preset:
    """How long to train, with which optimiser (sgd or adam), and at what learning rate."""

    epochs: int
    batch: int
    rate: float
    schedule: str
    weight_decay: float = 1e-4
    optimiser: str = "sgd"

    def parameters(self) -> dict[str, Any]:
        """As JSON. SGD is not named, because checkpoints are older than the choice."""
        return {key: value for key, value in asdict(self).items() if (key, value) != ("optimiser", "sgd")}

    def optimiser_of(self, network: nn.Module) -> torch.optim.Optimizer:
        if self.optimiser == "adam":
            return torch.optim.Adam(network.parameters(), lr=self.rate, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            network.parameters(), lr=self.rate, momentum=0.9, nesterov=True, weight_decay=self.weight_decay
        )

    def rate_at(self, progress: float) -> float:
        """The learning rate after a share `progress` in [0, 1) of all steps."""
        if self.schedule == "steps":  # the paper's schedule: a tenth after every third of the run
            return self.rate * 0.1 ** int(3 * progress)
        if self.schedule == "cosine":
            return self.rate * (1 + math.cos(math.pi * progress)) / 2
        warm = 0.25  # one cycle: up from a twentieth of the rate to the rate, then down to zero
        return self.rate * (0.05 + 0.95 * progress / warm if progress < warm else (1 - progress) / (1 - warm))


PRESETS = {
    "paper": Preset(epochs=150, batch=256, rate=0.1, schedule="steps"),
    "one-cycle": Preset(epochs=16, batch=128, rate=0.2, schedule="one-cycle"),
    "mnist": Preset(epochs=30, batch=400, rate=0.05, schedule="steps"),
    "mnist-one-cycle": Preset(epochs=8, batch=200, rate=0.1, schedule="one-cycle"),
    "denoiser-paper": Preset(epochs=90, batch=256, rate=1e-3, schedule="steps", optimiser="adam"),
    "denoiser": Preset(epochs=8, batch=128, rate=1e-3, schedule="cosine", optimiser="adam"),
    "denoiser-tuning": Preset(epochs=4, batch=128, rate=1e-4, schedule="cosine", optimiser="adam"),
}


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a member. `accuracy` is under noise: on the batch or, at an epoch's end, on the hold-out."""

    epoch: int
    epochs: int
    images: int
    images_total: int
    loss: float
    accuracy: float
    seconds: float
    holdout_accuracy: float | None = None


@dataclass(frozen=True)
class TrainingRecord:
    """How a member was trained. The record travels in the header of the file of its weights."""

    architecture: str
    method: str
    noise: Noise | None
    seed: int
    preset: str
    precision: str
    epochs: int
    data: str
    data_digest: str
    seconds: float
    holdout: str
    holdout_accuracy: float
    classifier: str | None = None
    """The sha256 of the file of the classifier behind a denoiser."""
    start: str | None = None
    """The sha256 of the file of the weights with which the training began; None for random ones."""
    parameters: dict[str, float] | None = None
    """The parameters of the method that differ from the published ones."""

    def header(self) -> dict[str, Any]:
        """The record as JSON without nulls, with the noise as `recorded` states it."""
        fields: dict[str, Any] = {}
        for key in self.__dataclass_fields__:
            fields.update(recorded(self.noise) if key == "noise" else {key: getattr(self, key)})
        return {key: value for key, value in fields.items() if value is not None}


def train(
    network: nn.Module,
    method: Method,
    preset: Preset,
    images: Images,
    holdout: Images,
    *,
    augment: Callable[[Tensor], Tensor],
    seed: int,
    checkpoint: Path,
    report: Callable[[TrainingProgress], None],
    device: str = "cpu",
    precision: str = "float32",
    start: str | None = None,
) -> tuple[float, float]:
    """Train `network` in place; return the seconds spent and the accuracy under noise on the hold-out.

    `augment` makes a batch of pixels in [0, 1] from bytes. The training resumes from `checkpoint` if that exists.
    `precision` is that of the arithmetic inside the layers; weights, momentum and loss stay in float32. `start`
    identifies the weights of `network`, unless they follow from the seed.
    """
    network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = preset.optimiser_of(network)
    run = {"preset": preset.parameters(), "method": method.parameters(), "seed": seed, "data": images.digest}
    run |= {} if start is None else {"start": start}
    run |= {} if precision == "float32" else {"precision": precision}  # a checkpoint of 0.1.0 names none
    mixed = partial(torch.autocast, torch.device(device).type, dtype_of(precision), enabled=precision != "float32")
    judged = classifier_of(method, network)
    kept = TrainingCheckpoint(checkpoint, run)
    first, spent = kept.resume(network, optimiser)
    pixels = torch.from_numpy(images.pixels).to(device)
    labels = torch.from_numpy(images.labels).to(device)
    steps = len(images) // preset.batch
    progress = partial(TrainingProgress, epochs=preset.epochs, images_total=preset.epochs * steps * preset.batch)
    accuracy = accuracy_under_noise(judged, holdout, method.noise, seed=0, device=device)
    for epoch in range(first, preset.epochs):
        began = time.monotonic()
        torch.manual_seed(epoch_seed(seed, epoch))
        for step, loss, right in _epoch(network, method, preset, optimiser, augment, pixels, labels, epoch, mixed):
            if step % 10 == 0 or step == steps:
                seen, seconds = (epoch * steps + step) * preset.batch, spent + time.monotonic() - began
                latest = progress(epoch, images=seen, loss=loss.item(), accuracy=right.item(), seconds=seconds)
                report(latest)
        spent += time.monotonic() - began
        accuracy = accuracy_under_noise(judged, holdout, method.noise, seed=0, device=device)
        kept.save(network, optimiser, epoch=epoch + 1, seconds=spent)
        report(replace(latest, epoch=epoch + 1, accuracy=accuracy, seconds=spent, holdout_accuracy=accuracy))
    return spent, accuracy


def _epoch(
    network: nn.Module,
    method: Method,
    preset: Preset,
    optimiser: torch.optim.Optimizer,
    augment: Callable[[Tensor], Tensor],
    pixels: Tensor,
    labels: Tensor,
    epoch: int,
    mixed: Callable[[], AbstractContextManager[object]],
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Go once through the images in a random order; yield the number of each step, its loss and its accuracy."""
    network.train()
    order = torch.randperm(len(pixels)).to(pixels.device)
    steps = len(pixels) // preset.batch
    for step in range(steps):
        rows = order[step * preset.batch : (step + 1) * preset.batch]
        x, y = augment(pixels[rows]), labels[rows]
        for group in optimiser.param_groups:
            group["lr"] = preset.rate_at((epoch + step / steps) / preset.epochs)
        with mixed():
            loss, logits = method.loss(network, x, y, epoch=epoch)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        yield step + 1, loss.detach(), (logits.argmax(1) == y[: len(logits)]).float().mean()


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of one epoch of one member, hashed because torch's CPU generator keeps only 32 bits of a seed."""
    return int.from_bytes(hashlib.sha256(f"train/{seed}/{epoch}".encode()).digest()[:4], "big")


@torch.no_grad()
def accuracy_under_noise(
    network: nn.Module, images: Images, noise: Noise | None, *, seed: int, device: str = "cpu", batch: int = 250
) -> float:
    """The share of images classified correctly under one draw of noise each, or as they are for None."""
    network.eval()
    generator = torch.Generator(device).manual_seed(seed)
    right = 0
    for start in range(0, len(images), batch):
        part = images.pick(slice(start, start + batch))
        x = torch.from_numpy(part.pixels).to(device).float() / 255
        x = x if noise is None else noise.perturb(x, generator)
        x = x.contiguous(memory_format=torch.channels_last)
        right += int((network(x).argmax(1).cpu() == torch.from_numpy(part.labels)).sum())
    return right / len(images)
