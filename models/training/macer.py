"""MACER (Zhai et al., 2020): maximise a surrogate of the certified radius of correctly classified images."""

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
class Macer:
    """loss = NLL of the mean prediction + lambda sigma / 2 * max(gamma - margin, 0) on correctly classified images.

    margin = Phi^-1(p_y) - Phi^-1(largest other p), of the mean softmax at inverse temperature beta; only margins
    below gamma count. The margin is the certified radius under Gaussian noise, in units of sigma / 2.
    """

    sigma: float
    lambda_: float = 12.0
    copies: int = 16
    gamma: float = 8.0
    beta: float = 16.0
    name = "macer"

    @classmethod
    def at(cls, noise: Noise | None) -> Macer:
        """The method with the authors' lambda: 12 at sigma .25 and 1, 4 at .5."""
        sigma = gaussian_sigma(noise, method=cls.name)
        return cls(sigma, 4.0 if sigma == 0.5 else 12.0)

    @property
    def noise(self) -> Noise | None:
        return gaussian_noise(self.sigma)

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits [N, classes] of the first noisy copy."""
        logits = per_image(network(noisy_copies(x, self.sigma, self.copies)), self.copies)
        fit = F.nll_loss(logits.softmax(-1).mean(0).clamp_min(1e-12).log(), y)
        return fit + self.lambda_ * self.sigma / 2 * self.shortfall(logits, y).sum() / len(y), logits[0]

    def shortfall(self, logits: Tensor, y: Tensor) -> Tensor:
        """max(gamma - margin, 0) of correctly classified images, 0 for others, [N]; logits are [copies, N, classes]."""
        sharp = (self.beta * logits).softmax(-1).mean(0)
        of_y = sharp.gather(1, y.unsqueeze(1)).squeeze(1)
        other = sharp.scatter(1, y.unsqueeze(1), 0.0).amax(1)
        margin = _quantile(of_y) - _quantile(other)
        counts = (of_y > other) & (margin < self.gamma)
        return torch.where(counts, self.gamma - margin, 0.0)


def _quantile(p: Tensor) -> Tensor:
    """Phi^-1 of p clamped to where the gradient is finite."""
    quantile: Tensor = torch.special.ndtri(p.clamp(1e-6, 1 - 1e-6))
    return quantile
