"""A member compiled by OpenVINO: a form that may compute faster on a CPU (extra `openvino`).

OpenVINO compiles a network for one shape of input, which suits the slices of `engine.form`. It takes and gives float32
and computes in the precision that it is told. The form is examined like every other one before it is used.
"""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import RuntimeNameError
from smoothcert.extras import needed_by

PRECISION_HINTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
"""OpenVINO's names of the dtypes in which it computes."""

Shape = tuple[int, ...]


class OpenVino(nn.Module):
    """A network [rows, C, H, W] -> [rows, classes], compiled for each shape that it is given.

    Several threads may call it.
    """

    def __init__(self, network: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.network = network
        self.dtype = dtype
        self.versions = {"openvino": str(_openvino().__version__)}
        self._compiled: dict[Shape, Any] = {}
        self._lock = threading.Lock()
        self._own = threading.local()

    def forward(self, images: Tensor) -> Tensor:
        request = self._request(tuple(images.shape))
        request.infer({0: images.float().numpy()}, share_inputs=True)
        return torch.from_numpy(request.get_output_tensor(0).data.copy())

    def _request(self, shape: Shape) -> Any:
        """The request of this thread: it holds buffers and runs one inference at a time."""
        requests = vars(self._own).setdefault("requests", {})
        if shape not in requests:
            with self._lock:
                if shape not in self._compiled:
                    self._compiled[shape] = self._compile(shape)
            requests[shape] = self._compiled[shape].create_infer_request()
        return requests[shape]

    def _compile(self, shape: Shape) -> Any:
        openvino = _openvino()
        plain = copy.deepcopy(self.network).float().eval()  # the conversion replaces methods of what it is given
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it traces the network, which torch calls deprecated
            # A branch that pixels decide would be lost. mypy does not know this public name.
            warnings.simplefilter("error", torch.jit.TracerWarning)  # type: ignore[attr-defined]
            model = openvino.convert_model(plain, example_input=torch.zeros(shape), input=[*shape])
        settings = {
            "PERFORMANCE_HINT": "LATENCY",  # one slice at a time, on all threads
            "INFERENCE_PRECISION_HINT": PRECISION_HINTS[self.dtype],
            "INFERENCE_NUM_THREADS": str(torch.get_num_threads()),
            "ENABLE_CPU_PINNING": False,  # two processes would be pinned to the same cores
        }
        return openvino.Core().compile_model(model, "CPU", settings)


def optimiser(device: torch.device) -> Callable[[nn.Module, torch.device, torch.dtype], tuple[nn.Module, str]]:
    """What makes the form; RuntimeNameError on another device than the CPU, MissingImportError without the extra."""
    if device.type != "cpu":
        raise RuntimeNameError(f"the runtime openvino computes on the CPU, and the device is {device}")
    _openvino()
    return lambda network, _, dtype: (OpenVino(network, dtype), "openvino")


def _openvino() -> Any:
    # Where its telemetry can be imported, OpenVINO reports every import and conversion over the network.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    with needed_by("the runtime openvino"):
        import openvino
    return openvino
