"""Libraries, beside torch, that compute the logits of members or have the code of their networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeGuard

from torch import nn


class OfLibrary(Protocol):
    """A module whose logits another library than torch computes, or whose code is that of another library."""

    def library_versions(self) -> dict[str, str]:
        """The version of the library by its name."""


def versions_of(networks: Iterable[nn.Module]) -> dict[str, str]:
    """The versions of the libraries of these networks, by their names."""
    modules = (module for network in networks for module in network.modules())
    return {k: v for each in modules if _is_of_library(each) for k, v in each.library_versions().items()}


def _is_of_library(module: object) -> TypeGuard[OfLibrary]:
    """Whether the class of a module has the method. Checking the protocol itself takes a hundred times as long."""
    return hasattr(type(module), "library_versions")
