"""Models of four classes for the tests of `Smoothed`, and questions that are answered in a moment."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from smoothcert.certificate import Certificate
from smoothcert.counts import SampleCounts
from smoothcert.engine.smoothed import Smoothed
from smoothcert.procedures import Sequential
from tests.support.engines import NOISE, SHAPE, Patches, images

QUICK = Sequential(max_samples=1000)


def patches(seed: int = 0) -> nn.Module:
    return Patches(seed).eval()


class Constant(nn.Module):
    """A network that gives class 2 of three to every image."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([0.0, -1.0, 3.0]).expand(len(x), 3) + 0 * x.sum((1, 2, 3)).unsqueeze(1)


def noisy(batch: Tensor) -> Tensor:
    return NOISE.perturb(batch.repeat(50, 1, 1, 1), torch.Generator().manual_seed(5))


def noisy_classes(smoothed: Smoothed, batch: Tensor) -> Tensor:
    """The classes of noisy images, which are always the same."""
    return smoothed._session.ensemble(batch).classify(noisy(batch)).classes


def counts(certificate: Certificate) -> list[SampleCounts]:
    return [certificate.selection, *(stage.counts for stage in certificate.stages)]


def loaded(count: int = 10, batch: int = 4) -> DataLoader[Any]:
    data = TensorDataset(torch.stack(images(count)), torch.arange(count) % 4)
    return DataLoader(data, batch_size=batch)


__all__ = ["NOISE", "QUICK", "SHAPE", "Constant", "counts", "images", "loaded", "noisy", "noisy_classes", "patches"]
