"""Libraries, beside torch, that compute the logits of members or have the code of their networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class OfLibrary(Protocol):
    """A module whose logits another library than torch computes, or whose code is that of another library."""

    def library_versions(self) -> dict[str, str]:
        """The version of the library by its name."""


def versions_of(networks: Iterable[nn.Module]) -> dict[str, str]:
    """The versions of the libraries of these networks, by their names."""
    modules = (module for network in networks for module in network.modules())
    return {k: v for each in modules if isinstance(each, OfLibrary) for k, v in each.library_versions().items()}
