"""A torch network that onnxruntime computes. This form may be faster on a CPU; it needs the extra `onnx`.

Torch exports the network as an ONNX graph for one input shape, which suits the slices of `engine.form`. The graph is
vetted and runs in float32, like a member that is an ONNX file. Like every optimised form, it is compared with the plain
network before it is used.
"""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError, RuntimeNameError
from smoothcert.engine.form import optimised
from smoothcert.extras import needed_by

Shape = tuple[int, ...]


class OnnxRuntime(nn.Module):
    """A network [rows, C, H, W] -> [rows, classes], exported once for each input shape.

    Several threads may call it, since a session of onnxruntime has no state.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.versions = {"onnxruntime": str(_onnxruntime().__version__)}
        self._exported: dict[Shape, nn.Module] = {}
        self._lock = threading.Lock()

    def forward(self, images: Tensor) -> Tensor:
        shape = tuple(images.shape)
        with self._lock:
            if shape not in self._exported:
                self._exported[shape] = self._export(shape)
        logits: Tensor = self._exported[shape](images)
        return logits

    def _export(self, shape: Shape) -> nn.Module:
        from smoothcert.engine.onnx.network import OnnxNetwork

        network, file = copy.deepcopy(self.network).eval(), io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls this exporter deprecated; the other one needs onnxscript
            # A trace keeps only one side of a branch that depends on pixels. mypy does not know this public name.
            warnings.simplefilter("error", torch.jit.TracerWarning)  # type: ignore[attr-defined]
            # This exporter can also write into memory, although its annotation does not say so.
            torch.onnx.export(network, (torch.zeros(shape),), file, dynamo=False)  # type: ignore[arg-type]
        return OnnxNetwork(file.getvalue())


def optimiser(device: torch.device) -> Callable[[nn.Module, torch.device, torch.dtype], tuple[nn.Module, str]]:
    """The function that makes the form. RuntimeNameError on a device other than the CPU, MissingImportError without the
    extra."""
    if device.type != "cpu":
        raise RuntimeNameError(f"the runtime onnxruntime computes on the CPU, and the device is {device}")
    _onnxruntime()
    return _made


def _made(network: nn.Module, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
    from smoothcert.engine.onnx.network import OnnxNetwork

    if any(isinstance(module, OnnxNetwork) for module in network.modules()):
        return optimised(network, device, dtype)  # onnxruntime already computes a member that is an ONNX file
    if dtype is not torch.float32:
        raise MemberError(f"the runtime onnxruntime computes in float32, and the precision is {dtype}")
    return OnnxRuntime(network), "onnxruntime"


def _onnxruntime() -> Any:
    with needed_by("the runtime onnxruntime"):
        import onnx  # noqa: F401  # the export and the vetting use it
        import onnxruntime
    return onnxruntime
