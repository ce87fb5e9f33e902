"""Logits out of what a model returns: a tensor, an object with `.logits` (Hugging Face), a mapping, or a tuple."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError, reason

CHANNELS = (1, 3)
"""The usual numbers of channels, by which an image [H, W, C] is recognised."""


class LogitsOf(nn.Module):
    """A network that returns something around its logits, as a network that returns the logits alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return logits_of(self.network(x))

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """The inner network in its optimised form, unwrapped in the same way (see `engine.form`)."""
        from smoothcert.engine.form import optimised

        inner, kind = optimised(self.network, device, dtype)
        return LogitsOf(inner), kind


def logits_of(output: Any) -> Tensor:
    """The tensor of logits inside an output; MemberError names the type where there is none."""
    found = output
    if isinstance(output, Mapping) and "logits" in output:
        found = output["logits"]
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        found = output.logits
    elif isinstance(output, tuple | list) and output:
        found = output[0]  # the others are auxiliary: losses, hidden states, the heads of an Inception
    if not isinstance(found, Tensor):
        raise MemberError(
            f"the model returns {type(output).__qualname__}; it must return a tensor [N, classes] of logits, an object "
            f"with such a tensor as .logits, or a tuple that begins with it"
        )
    return found


def first_output(network: nn.Module, images: Tensor, *, name: str) -> Any:
    """Whatever a network returns for images; MemberError where it raises."""
    try:
        with torch.inference_mode():
            return network.eval()(images.clone())  # a network may write over its input
    except Exception as error:  # whatever a foreign network raises
        shape = tuple(images.shape)
        order = "; channels come first, [N, C, H, W]" if shape[1] not in CHANNELS and shape[-1] in CHANNELS else ""
        raise MemberError(f"{name} cannot take images of shape {shape}: {reason(error)}{order}") from error


def count_classes(output: Any, *, rows: int, name: str) -> int:
    """The number of classes in the output for this many images; MemberError where it is not that of a classifier."""
    logits = logits_of(output)
    if logits.dim() != 2 or len(logits) != rows:
        raise MemberError(f"{name} returns shape {tuple(logits.shape)} for {rows} images; it must be ({rows}, classes)")
    if logits.shape[1] < 2:
        raise MemberError(f"{name} returns one number for each image; a classifier returns a logit for each class")
    return int(logits.shape[1])


def are_probabilities(logits: Tensor) -> bool:
    """Whether all rows [..., classes] are non-negative and sum to one, as after a softmax."""
    return bool((logits >= 0).all()) and bool(((logits.sum(-1) - 1).abs() < 1e-3).all())
