"""Ways to present images to a network: ranges of pixels, orders of the channels, layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.engine.batches import USUAL
from smoothcert.engine.normalisation import Normalisation


@dataclass(frozen=True)
class Way:
    """A way to present images in [0, 1] to a network: a range of pixels, and perhaps another order of the values."""

    name: str
    advice: str
    normalisation: Normalisation | None
    rearrange: Callable[[Tensor], Tensor] | None = None

    @property
    def rearranged(self) -> bool:
        return self.rearrange is not None

    def present(self, images: Tensor, own: Normalisation | None) -> Tensor:
        """The images such that they arrive in this way behind the normalisation `own` that the network begins with.

        They are normalised by this way's numbers, rearranged, and then `own` is undone in advance.
        """
        if self is AS_THEY_ARE:
            return images
        values = images if self.normalisation is None else (images - _column(self.normalisation.mean)) / _column(
            self.normalisation.std
        )  # fmt: skip
        values = values if self.rearrange is None else self.rearrange(values)
        return values if own is None else values * _column(own.std) + _column(own.mean)


AS_THEY_ARE = Way("the images as they are", "", None)


def usual_ways(channels: int) -> list[Way]:
    """The usual ranges, each with the usual orders."""
    ranges = [
        ("pixels in [0, 1] without normalisation", "Leave the normalisation out.", None),
        (
            "pixels from 0 to 255",
            "Normalise with mean=0 and std=1/255.",
            Normalisation((0.0,) * channels, (1 / 255,) * channels),
        ),
        (
            "pixels in [-1, 1]",
            "Normalise with mean=0.5 and std=0.5.",
            Normalisation((0.5,) * channels, (0.5,) * channels),
        ),
    ]
    for whose in ("ImageNet's", "CIFAR-10's", "MNIST's"):
        usual = USUAL[whose]
        if len(usual.mean) == channels:
            advice = f"Normalise with mean={usual.mean} and std={usual.std}."
            ranges.append((f"{whose} mean and standard deviation", advice, usual))
    ways = [Way(name, advice, normalisation) for name, advice, normalisation in ranges]
    for name, advice, normalisation in ranges:
        if channels == 3:
            ways.append(
                Way(
                    f"{name}, in the order BGR",
                    f"{advice} Reverse the channels in front of the model: x.flip(1).",
                    normalisation,
                    _reverse_channels,
                )
            )
        if channels == 1:
            ways.append(Way(f"{name}, inverted", f"{advice} Invert the images: 1 - x.", normalisation, _invert))
        ways.append(
            Way(
                f"{name}, with the channels last",
                f"{advice} Permute the images in front of the model: x.permute(0, 2, 3, 1).",
                normalisation,
                _channels_last,
            )
        )
    return ways


def _reverse_channels(images: Tensor) -> Tensor:
    return images.flip(1)


def _channels_last(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1)


def _invert(images: Tensor) -> Tensor:
    """Light for dark, within the range that the images span."""
    return images.min() + images.max() - images


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values).view(1, -1, 1, 1)
