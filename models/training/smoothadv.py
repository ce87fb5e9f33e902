"""SmoothAdv (Salman et al., 2019), by PGD: train on images that fool the smoothed classifier."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.training.copies import gaussian_like, per_image
from models.training.method import gaussian_noise, gaussian_sigma
from smoothcert.noise import Noise


@dataclass(frozen=True)
class SmoothAdv:
    """loss = mean CE(f(x' + e_i), y), with x' within l2 distance epsilon of x and against the mean prediction.

    The e_i are Gaussian; the l2 ball and the published epsilons belong to that noise.
    """

    sigma: float
    steps: int
    epsilon: float
    copies: int
    warm_up: int = 10
    name = "smoothadv"

    @classmethod
    def at(cls, noise: Noise | None) -> SmoothAdv:
        """The method with the paper's parameters for sigma .25, .5 and 1."""
        sigma = gaussian_sigma(noise, method=cls.name)
        if sigma <= 0.25:
            return cls(sigma, steps=10, epsilon=255 / 255, copies=8)
        return cls(sigma, steps=2 if sigma <= 0.5 else 10, epsilon=512 / 255, copies=2)

    @property
    def noise(self) -> Noise | None:
        return gaussian_noise(self.sigma)

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits [N, classes] of the first noisy copy of the adversarial images."""
        noise = gaussian_like(x, self.sigma, self.copies)
        fooling = self.attack(network, x, y, noise, self.epsilon * min(1.0, (epoch + 1) / self.warm_up))
        logits = network(fooling.repeat(self.copies, 1, 1, 1) + noise)
        return F.cross_entropy(logits, y.repeat(self.copies)), per_image(logits, self.copies)[0]

    def attack(self, network: nn.Module, x: Tensor, y: Tensor, noise: Tensor, epsilon: float) -> Tensor:
        """Projected gradient ascent on -log of the mean probability of y, in the l2 ball of radius epsilon."""
        training = network.training
        network.eval()
        moved = torch.zeros_like(x)
        for _ in range(self.steps):
            moved.requires_grad_(True)
            logits = per_image(network((x + moved).repeat(self.copies, 1, 1, 1) + noise), self.copies)
            fooled = F.nll_loss(logits.log_softmax(-1).logsumexp(0), y, reduction="sum")
            (gradient,) = torch.autograd.grad(fooled, moved)
            step = 2 * epsilon / self.steps * gradient / _lengths(gradient).clamp_min(1e-12)
            moved = (moved + step).detach()
            moved = moved * (epsilon / _lengths(moved).clamp_min(1e-12)).clamp_max(1.0)
            moved = (x + moved).clamp(0, 1) - x  # x + moved stays an image
        network.train(training)
        return x + moved


def _lengths(x: Tensor) -> Tensor:
    """The l2 norm of each image, [N, 1, 1, 1]."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=(1, 2, 3), keepdim=True)
    return lengths
