"""Files that bring their own network, and a pickle that would execute code."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

SHAPE = (1, 4, 4)


def scripted(network: nn.Module, shape: tuple[int, int, int] = SHAPE) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, but its files remain in use
        torch.jit.save(torch.jit.trace(network, torch.rand(2, *shape), check_trace=False), buffer)
    return buffer.getvalue()


def exported(network: nn.Module, shape: tuple[int, int, int] = SHAPE) -> bytes:
    buffer = io.BytesIO()
    batch = {0: torch.export.Dim("batch", min=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(network, (torch.rand(2, *shape),), dynamic_shapes=(batch,)), buffer)
    return buffer.getvalue()


def edited(data: bytes, entry: str, edit: Callable[[bytes], bytes]) -> bytes:
    """The archive with one entry changed or added."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        contents = {name: old.read(name) for name in old.namelist()}
        contents[f"{root}/{entry}"] = edit(contents.get(f"{root}/{entry}", b""))
        for name, content in contents.items():
            new.writestr(name, content)
    return buffer.getvalue()


def poison(mark: Path) -> bytes:
    """A pickle that creates the file `mark` when it is executed."""

    class Poison:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (mark,)  # type: ignore[return-value]

    return pickle.dumps(Poison())
