"""A member compiled by torch.compile: a form that may compute faster where launching kernels costs much, as on a GPU.

The slices of `engine.form` have one shape, so the network is compiled for that shape alone. On CUDA the whole network
is then one CUDA graph, which the host launches at once. The form is examined like every other one before it is used.
It needs what torch.compile needs: a C++ compiler on a CPU, Triton on CUDA.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import RuntimeNameError
from smoothcert.engine.form import Optimiser, optimised

OPTIONS = {"cpu": {"freezing": True}, "cuda": {"triton.cudagraphs": True}}
"""Options of the compiler by device: weights become constants on a CPU; on CUDA kernels are recorded as a graph."""


class Compiled(nn.Module):
    """A network [rows, C, H, W] -> [rows, classes] that is compiled when it is first called."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.network = network
        self.versions = {"compiled": torch.__version__}
        self._compiled = torch.compile(network, dynamic=False, fullgraph=True, options={**OPTIONS[device.type]})

    def forward(self, images: Tensor) -> Tensor:
        # The memory of a CUDA graph's output is written again by the next call, so the caller gets a copy.
        logits: Tensor = self._compiled(images).clone()
        return logits


def optimiser(device: torch.device) -> Optimiser:
    """The function that makes the form. RuntimeNameError on a device for which torch.compile is not used."""
    if device.type not in OPTIONS:
        raise RuntimeNameError(f"the runtime compiled computes on {' or '.join(OPTIONS)}, and the device is {device}")

    def compile_(network: nn.Module, where: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        fast, _ = optimised(network, where, dtype)
        return Compiled(fast, where), "compiled"

    return compile_
