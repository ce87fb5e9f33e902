"""Files that bring their own network, and a pickle that would execute code."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path

import torch
from torch import nn

SHAPE = (1, 4, 4)


def scripted(network: nn.Module) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, but its files remain in use
        torch.jit.save(torch.jit.trace(network, torch.rand(2, *SHAPE), check_trace=False), buffer)
    return buffer.getvalue()


def exported(network: nn.Module) -> bytes:
    buffer = io.BytesIO()
    batch = {0: torch.export.Dim("batch", min=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(network, (torch.rand(2, *SHAPE),), dynamic_shapes=(batch,)), buffer)
    return buffer.getvalue()


def poison(mark: Path) -> bytes:
    """A pickle that creates the file `mark` when it is executed."""

    class Poison:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (mark,)  # type: ignore[return-value]

    return pickle.dumps(Poison())
