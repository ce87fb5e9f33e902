"""ONNX files of small networks, made node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import nn

from tests.support.engines import SHAPE, Patches

FLOAT = onnx.TensorProto.FLOAT
OPSET = 17


def initializer(name: str, values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


def model_of(
    nodes: Sequence[Any],
    tensors: Sequence[Any] = (),
    *,
    rows: int | str = "n",
    shape: tuple[int, int, int] = SHAPE,
    classes: int = 4,
    outputs: Sequence[str] = ("logits",),
    kind: int = FLOAT,
    domains: Sequence[str] = (),
) -> Any:
    """A model from images `x` to `outputs`."""
    images = helper.make_tensor_value_info("x", kind, [rows, *shape])
    logits = [helper.make_tensor_value_info(name, FLOAT, [rows, classes]) for name in outputs]
    graph = helper.make_graph(list(nodes), "network", [images], logits, initializer=list(tensors))
    opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def patches_model(seed: int = 0, *, rows: int | str = "n", extra: Sequence[Any] = (), **options: Any) -> Any:
    """The network `Patches(seed)` in eval mode; `extra` nodes go before the others."""
    network: nn.Module = Patches(seed).eval()
    tensors = [
        initializer(name.replace(".", "_"), tensor.numpy())
        for name, tensor in network.state_dict().items()
        if tensor.is_floating_point()
    ]
    norm = ["norm_weight", "norm_bias", "norm_running_mean", "norm_running_var"]
    nodes = [
        *extra,
        helper.make_node("Conv", ["x", "conv_weight", "conv_bias"], ["a"]),
        helper.make_node("BatchNormalization", ["a", *norm], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "fc_weight", "fc_bias"], ["logits"], transB=1),
    ]
    return model_of(nodes, tensors, rows=rows, **options)


def patches_file(seed: int = 0, *, rows: int | str = "n") -> bytes:
    data: bytes = patches_model(seed, rows=rows).SerializeToString()
    return data


def subgraph() -> Any:
    """A graph that does nothing, for a node with control flow."""
    out = helper.make_tensor_value_info("out", FLOAT, [])
    return helper.make_graph([helper.make_node("Constant", [], ["out"], value_float=1.0)], "sub", [], [out])
