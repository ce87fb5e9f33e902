"""What the methods that train a denoiser have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from models.training.frozen import FrozenClassifier
from models.training.method import recorded
from smoothcert.engine.denoised import Denoised
from smoothcert.noise import Noise


@dataclass(frozen=True)
class DenoiserMethod:
    """The network that is trained is a denoiser D; the classifier f behind it is frozen."""

    noise: Noise
    classifier: FrozenClassifier

    def parameters(self) -> dict[str, Any]:
        return {**recorded(self.noise), "classifier": self.classifier.digest}

    def whole(self, network: nn.Module) -> nn.Module:
        return Denoised(network, self.classifier.network)
