"""Gaussian data augmentation (Cohen et al., 2019): cross-entropy on noisy images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Gaussian:
    """loss = CE(f(x + e), y), e ~ N(0, sigma^2 I)."""

    sigma: float
    name = "gaussian"

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits [N, classes] under noise, for a batch x [N, C, H, W] with labels y [N]."""
        logits = network(x + self.sigma * torch.randn_like(x))
        return F.cross_entropy(logits, y), logits
