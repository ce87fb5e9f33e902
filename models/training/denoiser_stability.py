"""Denoising for stability (Salman et al., 2020): the classifier's answer to the clean image is to survive the noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.training.denoiser import DenoiserMethod


@dataclass(frozen=True)
class DenoiserStability(DenoiserMethod):
    """loss = CE(f(D(x')), argmax f(x)), where x' is x under one draw of the noise; it does not use the labels."""

    name = "denoiser-stability"

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            answers = self.classifier.network(x).argmax(1)
        logits = self.classifier.network(network(self.noise.perturb(x)))
        return F.cross_entropy(logits, answers), logits
