"""A copy of a user's model that is ready to be a member of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from smoothcert.engine.denoised import Denoised, Shared, chained
from smoothcert.engine.ensemble import Member
from smoothcert.engine.errors import MemberError
from smoothcert.engine.form import Form
from smoothcert.engine.identity import Identity, network_digest
from smoothcert.engine.normalisation import Normalisation, normalised
from smoothcert.engine.outputs import LogitsOf, count_classes, first_output

IN_MEMORY = "in-memory"
"""The name of an ensemble that has no files, and the prefix of its members' architectures."""


@dataclass(frozen=True)
class ReadyModel:
    """A copy with its normalisation and the number of its classes, which one forward pass has told."""

    name: str
    inner: nn.Module
    module: nn.Module
    """`inner` behind its normalisation, with the logits unwrapped."""
    normalisation: Normalisation | None
    classes: int
    denoiser: Shared | None = None

    @classmethod
    def of(cls, network: nn.Module, normalisation: Normalisation | None, probe: Tensor) -> ReadyModel:
        module = normalised(network, normalisation).to(probe.device)
        name = name_of(network)
        try:
            output = first_output(module, probe, name=name)
        except MemberError as error:
            raise MemberError(f"{error}{_precision_hint(network)}") from error.__cause__
        classes = count_classes(output, rows=len(probe), name=name)
        plain = isinstance(output, Tensor)
        return cls(name, network, module if plain else LogitsOf(module), normalisation, classes)

    def behind(self, denoiser: Shared) -> ReadyModel:
        """The same classifier behind a denoiser."""
        name = f"{name_of(denoiser.network)} > {self.name}"
        return replace(self, name=name, module=Denoised(denoiser, self.module), denoiser=denoiser)

    def member(self, form: Form) -> Member:
        identity = Identity(f"{IN_MEMORY}:{name_of(self.inner)}", network_digest(self.inner), self.normalisation)
        if self.denoiser is not None:
            before = self.denoiser.network
            identity = chained(Identity(f"{IN_MEMORY}:{name_of(before)}", network_digest(before)), identity)
        return Member(self.name, identity, self.module, form)


def name_of(network: nn.Module) -> str:
    return type(network).__qualname__


def _precision_hint(network: nn.Module) -> str:
    """What to do about a model that was made for other numbers than float32; empty where that is not the trouble."""
    tensors = (*network.parameters(), *network.buffers())
    others = {str(tensor.dtype) for tensor in tensors if tensor.is_floating_point() and tensor.dtype != torch.float32}
    if not others:
        return ""
    return f". It has weights of {', '.join(sorted(others))}, and images come as torch.float32: pass model.float()"
