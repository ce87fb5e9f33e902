"""Files that bring their own network: TorchScript, and programs of `torch.export`.

Either file is a program that runs torch's operators with the rights of the worker. It is vetted before anything of it
is executed: it may use the operators of classifiers (models/operators.py) on its own tensors and on the images. What
torch's readers would execute while they read is refused (models/torchscript.py, models/exported.py). No pickle is
executed in either way. Before a file is read here, a confined child process reads and runs it (models/confinement.py).
"""

from __future__ import annotations

from torch import nn

from models import archive, exported, torchscript
from models.errors import ProgramError
from smoothcert.engine.errors import reason


def is_torchscript(data: bytes) -> bool:
    """Whether a file is a TorchScript archive, by its table of contents."""
    return any("/code/" in name for name in archive.names(data))


def is_exported(data: bytes) -> bool:
    """Whether a file is an archive of `torch.export.save`, by its table of contents."""
    return any(name.endswith("/archive_format") for name in archive.names(data))


def read_program(kind: str, data: bytes) -> nn.Module:
    """The network of a `torchscript` or `exported` file; ProgramError for one that is damaged or not allowed to run."""
    if kind == "torchscript" and not is_torchscript(data):
        raise ProgramError("not a TorchScript archive")
    if kind == "exported" and not is_exported(data):
        raise ProgramError("not an archive of torch.export.save")
    try:
        return torchscript.read(data) if kind == "torchscript" else exported.read(data)
    except ProgramError:
        raise
    except Exception as error:  # torch, json and zipfile raise many kinds for a damaged archive
        raise ProgramError(f"the {kind} file cannot be read: {reason(error)}") from error
