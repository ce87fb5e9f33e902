"""The only door to torchvision.

Beside a CPU-only torch, PyPI's torchvision fails at import because its compiled operators are missing. Two of them
(`nms` and `qnms`) are needed at import only to attach a fake kernel; declaring their schemas is enough.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

import torch

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a Library takes its schemas back when it is collected


@cache
def torchvision() -> ModuleType:
    """The torchvision package, with its classifiers ready."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    _declared.append(library)
    return importlib.import_module("torchvision")
