"""Denoising by squared error (Zhang et al., 2017): the denoised image is drawn towards the clean one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.training.denoiser import DenoiserMethod

JUDGED = 16
"""The images of a batch that the classifier judges, only to report an accuracy: few, because the loss needs none."""


@dataclass(frozen=True)
class DenoiserMse(DenoiserMethod):
    """loss = |D(x') - x|^2, summed over an image, where x' is x under one draw of the noise."""

    name = "denoiser-mse"

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits [at most JUDGED, classes] of the first denoised images."""
        denoised = network(self.noise.perturb(x))
        with torch.no_grad():
            logits = self.classifier.network(denoised[:JUDGED])
        return (denoised - x).square().sum() / len(x), logits
