"""Denoising for classification (Salman et al., 2020): the denoised image is to be classified correctly."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from models.training.denoiser import DenoiserMethod


@dataclass(frozen=True)
class DenoiserClassification(DenoiserMethod):
    """loss = CE(f(D(x')), y), where x' is x under one draw of the noise."""

    name = "denoiser-classification"

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        logits = self.classifier.network(network(self.noise.perturb(x)))
        return F.cross_entropy(logits, y), logits
