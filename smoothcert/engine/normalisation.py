"""Normalisation as the first layer of a network: noise is added to pixels in [0, 1], before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import NormalisationError


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std, one number per channel; every std > 0."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            raise NormalisationError(
                f"a normalisation must have as many means as standard deviations, one or more of each; got "
                f"{len(self.mean)} and {len(self.std)}"
            )
        if not all(abs(m) < 1e6 for m in self.mean) or not all(0 < s < 1e6 for s in self.std):
            raise NormalisationError(
                f"normalisation: mean {self.mean}, std {self.std}; means must be finite and every std positive"
            )


class Normalise(nn.Module):
    """The layer (x - mean) / std per channel, with nothing to train."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


class Normalised(nn.Module):
    """A network behind its normalisation."""

    def __init__(self, network: nn.Module, normalisation: Normalisation) -> None:
        super().__init__()
        self.normalisation = normalisation
        self.normalise = Normalise(normalisation.mean, normalisation.std)
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(self.normalise(x))
        return logits

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """The inner network in its optimised form, behind the same normalisation (see `engine.form`)."""
        from smoothcert.engine.form import optimised

        inner, kind = optimised(self.network, device, dtype)
        return Normalised(inner, self.normalisation).to(device, dtype), kind


def normalised(network: nn.Module, normalisation: Normalisation | None) -> nn.Module:
    """The network with the normalisation in front, where there is one."""
    return network if normalisation is None else Normalised(network, normalisation)
