"""Data augmentation with noise: cross-entropy on noisy images (for Gaussian noise, Cohen et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.training.method import gaussian_sigma, recorded
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Augmentation:
    """loss = CE(f(x'), y), where x' is x under one draw of the noise.

    The command line has it by two names: `augmentation` takes every noise, `gaussian` only Gaussian noise.
    """

    noise: Noise | None
    name: str = "augmentation"

    @classmethod
    def gaussian(cls, noise: Noise | None) -> Augmentation:
        gaussian_sigma(noise, method="gaussian")
        return cls(noise, "gaussian")

    def parameters(self) -> dict[str, Any]:
        return recorded(self.noise)

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        logits = network(self._noisy(x))
        return F.cross_entropy(logits, y), logits

    def _noisy(self, x: Tensor) -> Tensor:
        if self.noise is not None:
            return self.noise.perturb(x)
        torch.randn_like(x)  # unused: the crops of a run without noise are then those of a run with Gaussian noise
        return x
