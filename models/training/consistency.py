"""Consistency regularisation (Jeong and Shin, 2020): the predictions under noise are drawn towards their mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.training.copies import noisy_copies, per_image
from models.training.method import gaussian_noise, gaussian_sigma
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Consistency:
    """loss = mean CE + lambda * mean KL(mean prediction || prediction) + eta * entropy of the mean prediction.

    The paper defines it for Gaussian noise.
    """

    sigma: float
    lambda_: float
    eta: float = 0.5
    copies: int = 2
    name = "consistency"

    @classmethod
    def at(cls, noise: Noise | None) -> Consistency:
        """The method with the paper's lambda: 20 at sigma .25, 10 at .5 and 1."""
        sigma = gaussian_sigma(noise, method=cls.name)
        return cls(sigma, 20.0 if sigma <= 0.25 else 10.0)

    @property
    def noise(self) -> Noise | None:
        return gaussian_noise(self.sigma)

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits [N, classes] of the first noisy copy."""
        logits = per_image(network(noisy_copies(x, self.sigma, self.copies)), self.copies)  # [copies, N, classes]
        log_each = logits.log_softmax(-1)
        mean = log_each.exp().mean(0)
        log_mean = mean.clamp_min(torch.finfo(mean.dtype).tiny).log()
        entropy = -(mean * log_mean).sum(-1)
        divergence = (mean * (log_mean - log_each)).sum(-1).mean(0)
        fit = F.nll_loss(log_each.flatten(0, 1), y.repeat(self.copies))
        return fit + (self.lambda_ * divergence + self.eta * entropy).mean(), logits[0]
