"""A member compiled by OpenVINO. This form may be faster on a CPU; it needs the extra `openvino`.

OpenVINO compiles a network for one input shape, which suits the slices of `engine.form`. Inputs and outputs are
float32, and the precision of the computation is a setting. Like every optimised form, it is compared with the plain
network before it is used.
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
"""OpenVINO's name for each dtype in which it can compute."""

Shape = tuple[int, ...]


class OpenVino(nn.Module):
    """A network [rows, C, H, W] -> [rows, classes], compiled once for each input shape.

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
        """The inference request of this thread. A request holds buffers and runs one inference at a time."""
        requests = vars(self._own).setdefault("requests", {})
        if shape not in requests:
            with self._lock:
                if shape not in self._compiled:
                    self._compiled[shape] = self._compile(shape)
            requests[shape] = self._compiled[shape].create_infer_request()
        return requests[shape]

    def _compile(self, shape: Shape) -> Any:
        openvino = _openvino()
        plain = copy.deepcopy(self.network).float().eval()  # the conversion replaces methods of its argument
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it traces the network, which torch calls deprecated
            # A trace keeps only one side of a branch that depends on pixels. mypy does not know this public name.
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
    """The function that makes the form. RuntimeNameError on a device other than the CPU, MissingImportError without the
    extra."""
    if device.type != "cpu":
        raise RuntimeNameError(f"the runtime openvino computes on the CPU, and the device is {device}")
    _openvino()
    return lambda network, _, dtype: (OpenVino(network, dtype), "openvino")


def _openvino() -> Any:
    # If its telemetry package can be imported, OpenVINO reports every import and conversion over the network.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    with needed_by("the runtime openvino"):
        import openvino
    return openvino
