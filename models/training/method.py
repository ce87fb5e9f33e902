"""What a training method is, and how it states its noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from models.errors import TrainingError
from smoothcert.noise import Gaussian, Noise, resolve, stated


class Method(Protocol):
    """A training method is a loss; a frozen dataclass of its parameters."""

    @property
    def name(self) -> str:
        """The name by which the command line chooses it."""

    @property
    def noise(self) -> Noise | None:
        """The noise that it trains under; None for training without noise."""

    def parameters(self) -> dict[str, Any]:
        """Its parameters as JSON; a checkpoint belongs to the run with exactly these."""

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, *, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss and the logits under noise, for a batch x [N, C, H, W] in [0, 1] with labels y [N].

        The logits are [M, classes], those of the first M <= N images; they only serve to report an accuracy.
        """


@runtime_checkable
class TrainsPart(Protocol):
    """A method whose network is only a part of the classifier."""

    def whole(self, network: nn.Module) -> nn.Module:
        """The classifier of which the network is a part."""


def classifier_of(method: Method, network: nn.Module) -> nn.Module:
    """The classifier whose accuracy counts: the network itself, unless the method trains only a part of it."""
    return method.whole(network) if isinstance(method, TrainsPart) else network


def adjusted(method: Method, parameters: Mapping[str, float]) -> Method:
    """The method with other values of some of its parameters than the published ones; the noise is not among them."""
    numbers = {key: type(value) for key, value in method.parameters().items() if type(value) in (int, float)}
    numbers.pop("sigma", None)
    values = {}
    for name, value in parameters.items():
        if name not in numbers:
            known = f"its parameters are {', '.join(numbers)}" if numbers else "it has none"
            raise TrainingError(f"{name!r} is not a parameter of the method {method.name}: {known}")
        values[name] = numbers[name](value)
        if values[name] != value or value < (1 if numbers[name] is int else 0):
            accepted = "a whole number of at least 1" if numbers[name] is int else "zero or more"
            raise TrainingError(f"the parameter {name} of the method {method.name} must be {accepted}, got {value:g}")
    return replace(method, **values)  # type: ignore[type-var]


def recorded(noise: Noise | None) -> dict[str, Any]:
    """The noise as records of training state it. Sigma 0 stands for training without noise."""
    return {"sigma": 0.0} if noise is None else stated(noise)


def gaussian_sigma(noise: Noise | None, *, method: str) -> float:
    """The standard deviation for a method that is defined for Gaussian noise alone; 0 for training without noise."""
    if noise is None:
        return 0.0
    if type(noise) is not Gaussian:
        raise TrainingError(
            f"the method {method} is defined for Gaussian noise alone, got {noise.label}; the method augmentation "
            f"takes every noise"
        )
    return noise.sigma


def gaussian_noise(sigma: float) -> Noise | None:
    """The inverse of `gaussian_sigma`."""
    return None if sigma == 0 else resolve(sigma=sigma)
