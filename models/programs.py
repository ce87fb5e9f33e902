"""Files that bring their own network: TorchScript, programs of `torch.export`, and ONNX.

Such a file is a program that runs operators with the rights of the worker. It is vetted before anything of it is
executed: it may use the operators of classifiers (models/operators.py; for ONNX smoothcert/engine/onnx/vetting.py) on
its own tensors and on the images. What torch's readers would execute while they read is refused (models/torchscript.py,
models/exported.py). No pickle is executed in any way. Before a file is read here, a confined child process reads and
runs it (models/confinement.py).
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from models import archive, exported, torchscript
from models.errors import ProgramError
from smoothcert.engine.errors import MemberError, reason


def is_torchscript(data: bytes) -> bool:
    """Whether a file is a TorchScript archive, by its table of contents."""
    return any("/code/" in name for name in archive.names(data))


def is_exported(data: bytes) -> bool:
    """Whether a file is an archive of `torch.export.save`, by its table of contents."""
    return any(name.endswith("/archive_format") for name in archive.names(data))


def read_program(kind: str, data: bytes) -> nn.Module:
    """The network of a `torchscript`, `exported` or `onnx` file; ProgramError for a damaged or forbidden one."""
    if kind == "torchscript" and not is_torchscript(data):
        raise ProgramError("not a TorchScript archive")
    if kind == "exported" and not is_exported(data):
        raise ProgramError("not an archive of torch.export.save")
    if kind == "onnx":
        return _read_onnx(data)
    try:
        return torchscript.read(data) if kind == "torchscript" else exported.read(data)
    except ProgramError:
        raise
    except Exception as error:  # torch, json and zipfile raise many kinds for a damaged archive
        raise ProgramError(f"the {kind} file cannot be read: {reason(error)}") from error


def whole_onnx(path: Path) -> bytes:
    """An ONNX file, with the tensors in it that it keeps in other files of its folder."""
    from smoothcert.engine.onnx.vetting import whole  # needs an extra

    try:
        return whole(path)
    except MemberError as error:
        raise ProgramError(str(error)) from error


def onnxruntime_version() -> str:
    """The version of the installed onnxruntime, whichever package brought it; MissingImportError if there is none."""
    from smoothcert.engine.onnx.network import VERSION  # needs an extra

    return VERSION


def _read_onnx(data: bytes) -> nn.Module:
    from smoothcert.engine.onnx.network import OnnxNetwork  # needs an extra

    try:
        return OnnxNetwork(data)
    except MemberError as error:
        raise ProgramError(str(error)) from error
