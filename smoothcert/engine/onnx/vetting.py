"""What an ONNX file may contain. Files are checked before onnxruntime reads them.

An ONNX file is a program. It may use the operators of image classifiers (`OPERATORS`) on its own tensors and on the
images. The list leaves out control flow, randomness, texts, and every operator of another domain, which is foreign
code. Tensors may be in other files of the same folder; they are copied into the file when it is added. onnxruntime
reads the vetted message, which is serialised again without metadata and unknown fields.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from smoothcert.engine.errors import MemberError, reason
from smoothcert.extras import needed_by

with needed_by("an ONNX member"):
    import onnx

MOST_BYTES = 2**31 - 1
"""The most bytes of a file with all its tensors. This is a limit of protobuf."""
OWN_DOMAINS = ("", "ai.onnx")
"""The domains of ONNX's own operators."""
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})

LAYERS = """
    Conv ConvTranspose ConvInteger Gemm MatMul MatMulInteger Einsum BatchNormalization InstanceNormalization
    LayerNormalization GroupNormalization RMSNormalization LpNormalization MeanVarianceNormalization LRN Attention
    RotaryEmbedding Dropout
"""
ACTIVATIONS = """
    Relu LeakyRelu PRelu Elu Celu Selu ThresholdedRelu Gelu Swish Mish Sigmoid HardSigmoid HardSwish Softplus Softsign
    Tanh Erf Softmax LogSoftmax Hardmax Clip Shrink
"""
POOLING = """
    MaxPool AveragePool LpPool GlobalMaxPool GlobalAveragePool GlobalLpPool ReduceMean ReduceSum ReduceMax ReduceMin
    ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin TopK CumSum
"""
SHAPES = """
    Reshape Flatten Transpose Squeeze Unsqueeze Concat Split Slice Gather GatherElements GatherND ScatterElements
    ScatterND Expand Tile Pad Shape Size Constant ConstantOfShape Range EyeLike OneHot Trilu DepthToSpace SpaceToDepth
    CenterCropPad Resize Upsample ReverseSequence NonZero Identity
"""
ARITHMETIC = """
    Add Sub Mul Div Mod Pow Sqrt Exp Log Neg Abs Sign Reciprocal Floor Ceil Round Min Max Mean Sum Where Equal Greater
    GreaterOrEqual Less LessOrEqual And Or Not Xor IsNaN IsInf Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh
    Cast CastLike
"""
QUANTISATION = "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul"
OPERATORS = frozenset(" ".join((LAYERS, ACTIVATIONS, POOLING, SHAPES, ARITHMETIC, QUANTISATION)).split())
"""The operators of ONNX that a classifier may use."""


def vetted(data: bytes) -> Any:
    """Parse and check the bytes of an ONNX file that contains all its tensors; MemberError says what is refused."""
    model = _parsed(data)
    for tensor in _external_ones(model):
        raise MemberError(
            f"the ONNX file has its tensor {tensor.name!r} in another file, {_location(tensor)!r}; here a file must "
            f"contain all its tensors"
        )
    model.DiscardUnknownFields()
    del model.metadata_props[:]
    return model


def whole(path: Path) -> bytes:
    """The bytes of an ONNX file, with the tensors from other files of its folder copied into it."""
    data = path.read_bytes()
    model, total = _parsed(data), len(data)
    for tensor in _external_ones(model):
        content = _external(tensor, path.parent)
        total += len(content)
        if total > MOST_BYTES:
            raise MemberError(f"the ONNX file has more than {MOST_BYTES:,} bytes with its tensors in other files")
        tensor.raw_data = content
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    written: bytes = data if total == len(data) else model.SerializeToString(deterministic=True)
    return written


def _parsed(data: bytes) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf raises errors of its own
        raise MemberError(f"not an ONNX file: {reason(error)}") from error
    if not model.graph.node:
        raise MemberError("not an ONNX file: it has no graph with nodes")
    _vet_parts(model)
    _vet_nodes(model.graph)
    for tensor in _tensors(model.graph):
        if tensor.data_type == onnx.TensorProto.STRING:
            raise MemberError(f"the ONNX file has strings ({tensor.name!r}); only tensors of numbers are accepted")
    return model


def _vet_parts(model: Any) -> None:
    """Refuse what a classifier does not need: functions, training, sparse tensors."""
    if model.functions:
        names = ", ".join(sorted(f"{each.domain}.{each.name}" for each in model.functions)[:5])
        raise MemberError(
            f"the ONNX file defines functions of its own ({names}), and only the operators of ONNX are accepted: "
            f"inline them with onnx.inliner.inline_local_functions"
        )
    if model.training_info:
        raise MemberError("the ONNX file has a graph for training; only the graph of a classifier is accepted")
    if model.graph.sparse_initializer:
        raise MemberError("the ONNX file has sparse tensors; only dense tensors are accepted")


def _vet_nodes(graph: Any) -> None:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        name = f"{node.domain}.{node.op_type}" if node.domain not in OWN_DOMAINS else node.op_type
        if node.domain not in OWN_DOMAINS:
            raise MemberError(
                f"the ONNX file uses the custom operator {name}; only the operators of image classifiers in ONNX's "
                f"own domain are accepted"
            )
        if name in CONTROL_FLOW or any(each.HasField("g") or each.graphs for each in node.attribute):
            raise MemberError(f"the ONNX file uses control flow ({name}); a network must do the same for every image")
        if name not in OPERATORS:
            raise MemberError(
                f"the ONNX file uses the operator {name}; only the operators of image classifiers are accepted, "
                f"which smoothcert/engine/onnx/vetting.py lists"
            )
        if _trains(node, constants):
            raise MemberError(f"the ONNX file was exported in training mode: {name} is in training mode")


def _trains(node: Any, constants: dict[str, Any]) -> bool:
    if node.op_type == "BatchNormalization":
        return any(each.name == "training_mode" and each.i for each in node.attribute)
    if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    mode = constants.get(node.input[2])  # a mode that the graph computes counts as training
    return mode is None or bool(onnx.numpy_helper.to_array(mode).any())


# --- tensors in other files


def _external_ones(model: Any) -> list[Any]:
    return [
        tensor
        for tensor in _tensors(model.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data
    ]


def _location(tensor: Any) -> str:
    return str({entry.key: entry.value for entry in tensor.external_data}.get("location", ""))


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                raise MemberError("the ONNX file has sparse tensors; only dense tensors are accepted")
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _external(tensor: Any, folder: Path) -> bytes:
    """The bytes of a tensor that is in another file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = _location(tensor)
    path = PurePosixPath(location)
    if not location or path.is_absolute() or ".." in path.parts or "\\" in location or "\0" in location:
        raise MemberError(
            f"the ONNX file has its tensor {tensor.name!r} at {location!r}, outside of its folder; only files "
            f"beside it are accepted"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
    except ValueError as error:
        raise MemberError(
            f"the place of the tensor {tensor.name!r} in the ONNX file cannot be read: {error}"
        ) from error
    return _part_of(folder, path, offset, length, tensor.name)


def _part_of(folder: Path, path: PurePosixPath, offset: int, length: int | None, name: str) -> bytes:
    """A part of the bytes of a plain file inside the folder. No part of its path may be a link."""
    place = folder
    for part in path.parts:
        place = place / part
        if place.is_symlink():
            raise MemberError(f"the ONNX file has its tensor {name!r} at {str(path)!r}, which is a link")
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise MemberError(f"the ONNX file has its tensor {name!r} in {str(path)!r}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        length = status.st_size - offset if length is None else length
        if not stat.S_ISREG(status.st_mode) or offset < 0 or length < 0 or offset + length > status.st_size:
            raise MemberError(
                f"the ONNX file has its tensor {name!r} in the bytes {offset} to {offset + length} of {str(path)!r}, "
                f"which has {status.st_size}"
            )
        file.seek(offset)
        return file.read(length)
