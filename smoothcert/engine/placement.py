"""The device on which models run: where they are, which one was meant, and whether it can be used."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from smoothcert.engine.errors import DeviceError


def place_of(network: nn.Module) -> torch.device | None:
    """The device of the first tensor of a network; None where it has none."""
    for tensor in (*network.parameters(), *network.buffers()):
        return tensor.device
    return None


def choose_device(networks: Sequence[nn.Module], device: str | torch.device | None) -> torch.device:
    """The given device, or that of the first model; DeviceError where it cannot be used."""
    places = [place for network in networks if (place := place_of(network)) is not None]
    chosen = torch.device("cpu") if device is None and not places else device or places[0]
    if str(chosen) == "meta":
        raise DeviceError("the model is on the device meta, where tensors have no values: load its weights first")
    return usable_device(chosen)


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name; DeviceError where there is none, or where it cannot be used."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(f"device must be a name such as cpu or cuda:0, got {device!r}") from error
    try:
        torch.empty(1, device=chosen).cpu()
    except Exception as error:  # torch raises RuntimeError, AssertionError and others, by device
        raise DeviceError(f"the device {str(chosen)!r} cannot be used here: {error}") from error
    return chosen


def same_device(place: torch.device | None, device: torch.device) -> bool:
    """Whether two names mean one device; cuda without an index is any of them."""
    if place is None or place == device:
        return True
    return place.type == device.type and None in (place.index, device.index)
