"""The only place that imports torchvision, and what has to be done before.

With a CPU-only torch, PyPI's torchvision fails at import because its compiled operators are missing. Two of them
(`nms` and `qnms`) are needed at import only to attach a fake kernel, so it suffices to declare their schemas.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

import torch

from smoothcert.extras import is_installed

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a Library removes its schemas when it is garbage-collected


@cache
def torchvision() -> ModuleType:
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


def mend_torchvision() -> None:
    """Import torchvision where it is installed, so that a library that imports it finds it."""
    if is_installed("torchvision"):
        torchvision()
