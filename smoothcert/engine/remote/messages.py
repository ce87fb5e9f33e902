"""Requests and answers of the Open Inference Protocol, version 2, with its extension for binary tensors.

A body is JSON, and then the bytes of the tensors; a header says how long the JSON is. An answer may also have its
numbers in the JSON, which the protocol allows. Nothing of an answer is believed: its shape, datatype and length are
compared with what was asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.engine.errors import RemoteError
from smoothcert.engine.remote.endpoint import DATATYPES, Endpoint

LENGTH = "Inference-Header-Content-Length"
"""The header that says how many bytes of a body are JSON."""
MOST_JSON = 1 << 16
"""The bytes of an answer beside its tensor that are accepted, and those of the metadata of a model."""
TEXT_BYTES = 32
"""The bytes that a number takes at most where an answer has numbers in its JSON."""

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TensorMetadata:
    """A tensor of a model, as its server describes it."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.datatype} {list(self.shape)}"


@dataclass(frozen=True)
class ModelMetadata:
    """A model, as its server describes it."""

    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]

    @classmethod
    def read(cls, data: bytes) -> ModelMetadata:
        """Parse an answer; RemoteError if it is not the metadata of a model."""
        found = read_object(data)
        try:
            return cls(str(found.get("platform") or ""), _tensors(found["inputs"]), _tensors(found["outputs"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RemoteError(
                f"the metadata of the model cannot be understood: {type(error).__name__}: {error}"
            ) from error

    def input_for(self, shape: tuple[int, int, int]) -> TensorMetadata:
        """The one input, which must take images [N, C, H, W] of this shape."""
        listed = "; ".join(map(str, self.inputs)) or "none"
        if len(self.inputs) != 1:
            raise RemoteError(f"the model has {len(self.inputs)} inputs ({listed}), and a classifier must have one")
        (found,) = self.inputs
        expected = (found.shape[:1] or (-1,)) + shape
        if len(found.shape) != 4 or any(
            there not in (-1, here) for there, here in zip(found.shape, expected, strict=True)
        ):
            raise RemoteError(f"the model takes {listed}, and the images are [N, {', '.join(map(str, shape))}]")
        if found.datatype not in DATATYPES or not (found.shape[0] == -1 or found.shape[0] >= 1):
            raise RemoteError(
                f"the model takes {listed}; it must take 1 or more images of a datatype among {', '.join(DATATYPES)}"
            )
        return found

    def output_for(self, classes: int) -> TensorMetadata:
        """The one output that has logits [N, classes]."""
        fitting = [each for each in self.outputs if len(each.shape) == 2 and each.shape[1] in (-1, classes)]
        if len(fitting) != 1:
            listed = "; ".join(map(str, self.outputs)) or "none"
            raise RemoteError(f"the model has the outputs {listed}, of which one must have the shape [N, {classes}]")
        return fitting[0]


def _tensors(listed: Any) -> tuple[TensorMetadata, ...]:
    return tuple(
        TensorMetadata(str(each["name"]), str(each["datatype"]), tuple(map(int, each["shape"]))) for each in listed
    )


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in an answer."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"the answer is not JSON: {error}; it begins with {data[:40]!r}") from error
    if not isinstance(found, dict):
        raise RemoteError(f"the answer is a {type(found).__name__}, not a JSON object")
    return found


def inference(endpoint: Endpoint, images: npt.NDArray[np.float32], identifier: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a request for the logits of images [N, C, H, W].

    The protocol does not require the identifier, but KServe does; servers repeat it in their answer.
    """
    tensor = np.ascontiguousarray(images, DATATYPES[endpoint.datatype]).tobytes()
    payload = {
        "id": identifier,
        "inputs": [
            {
                "name": endpoint.input,
                "shape": list(images.shape),
                "datatype": endpoint.datatype,
                "parameters": {"binary_data_size": len(tensor)},
            }
        ],
        "outputs": [{"name": endpoint.output, "parameters": {"binary_data": True}}],
    }
    head = json.dumps(payload).encode()
    return {"Content-Type": "application/octet-stream", LENGTH: str(len(head))}, head + tensor


def most_bytes(rows: int, classes: int) -> int:
    """The longest answer that is read."""
    return MOST_JSON + rows * classes * TEXT_BYTES


def read_logits(
    endpoint: Endpoint, headers: Mapping[str, str], body: bytes, *, identifier: str, rows: int, classes: int
) -> Logits:
    """The logits [rows, classes] of the answer to the request with this identifier; RemoteError for every other."""
    head = _head_length(headers.get(LENGTH.lower()), body)
    found = read_object(body[:head])
    if (answered := found.get("id") or identifier) != identifier:
        raise RemoteError(f"the answer is to the request {answered!r}, and the request was {identifier!r}")
    offset, outputs = head, found.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        tensor = output if isinstance(output, dict) else {}
        parameters = tensor.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if tensor.get("name") == endpoint.output:
            _require_shape(tensor, rows, classes)
            return _numbers(tensor, body[offset : offset + size] if type(size) is int else None).reshape(rows, classes)
        offset += size if type(size) is int and size > 0 else 0
    raise RemoteError(f"the answer has no output {endpoint.output!r}")


def _head_length(stated: str | None, body: bytes) -> int:
    if stated is None:
        return len(body)
    if not stated.isdecimal() or len(stated) > 12 or int(stated) > len(body):
        raise RemoteError(f"the answer has {len(body):,} bytes, and its header {LENGTH} says {stated[:40]!r}")
    return int(stated)


def _require_shape(tensor: dict[str, Any], rows: int, classes: int) -> None:
    if tensor.get("shape") != [rows, classes]:
        raise RemoteError(f"the logits have the shape {tensor.get('shape')}, not [{rows}, {classes}]")
    if tensor.get("datatype") not in DATATYPES:
        raise RemoteError(
            f"the logits have the datatype {tensor.get('datatype')!r}; it must be one of {', '.join(DATATYPES)}"
        )


def _numbers(tensor: dict[str, Any], raw: bytes | None) -> Logits:
    """The values of a tensor whose shape and datatype are as they should be, from its bytes or from the JSON."""
    dtype, count = np.dtype(DATATYPES[tensor["datatype"]]), math.prod(tensor["shape"])
    if raw is None:
        try:
            values = np.asarray(tensor.get("data"), np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise RemoteError(f"the logits in the answer are not numbers: {error}") from error
        if len(values) != count:
            raise RemoteError(f"the answer has {len(values):,} logits, not {count:,}")
        return values.astype(np.float32)
    if len(raw) != count * dtype.itemsize:
        raise RemoteError(f"the logits have {len(raw):,} bytes, not {count * dtype.itemsize:,}")
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, and an image then has no class
        return np.frombuffer(raw, dtype).astype(np.float32)
