"""Files that bring their own network: TorchScript, and programs of `torch.export`.

Neither way executes a pickle.

- TorchScript is read by torch's C++ unpickler, which knows tensors, plain containers and the classes of the archive's
  own TorchScript, and cannot call Python.
- `torch.export.load` would unpickle tensors marked `use_pickle`, opaque constants, and sample inputs that fail to load
  as weights; and it evaluates strings (shape expressions, guards). The archive is therefore vetted first. It may have
  only the entries that a plain classifier needs, raw tensors, sample inputs that load as weights (so that torch never
  reaches its fallback), symbols as shape expressions, no guards, and only aten operators.

Either file is still a program, which runs torch's operators with the rights of the worker. An operator should serve
only trusted files; the registry pins each by its sha256.
"""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from models.errors import ProgramError
from smoothcert.engine.errors import reason
from smoothcert.engine.form import placed

_ENTRY = re.compile(
    r"models/model\.json|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)|data/sample_inputs/model\.pt"
    r"|archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
)
_SYMBOL = re.compile(r"(Symbol\('[su]\d+'(, (positive|nonnegative|integer)=(True|False))*\)|[su]?\d+)")
_OPERATOR = re.compile(r"torch\.ops\.aten\.\w+\.\w+|_operator\.(getitem|add|sub|mul|floordiv)")


class Exported(nn.Module):
    """The graph of an exported program. It has no modes, and torch's own module would raise at `eval()`."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.graph(x)
        return logits

    def train(self, mode: bool = True) -> Exported:
        """Do nothing: a graph that was exported in training mode is refused when it is read."""
        return self

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """A copy of the graph as it is, because it cannot be traced again."""
        return placed(copy.deepcopy(self), device, dtype), "exported"


def is_torchscript(data: bytes) -> bool:
    """Whether a file is a TorchScript archive, by its table of contents."""
    return any("/code/" in name for name in _entries(data))


def is_exported(data: bytes) -> bool:
    """Whether a file is an archive of `torch.export.save`, by its table of contents."""
    return any(name.endswith("/archive_format") for name in _entries(data))


def read_program(kind: str, data: bytes) -> nn.Module:
    """The network of a `torchscript` or `exported` file; ProgramError for one that is damaged or not allowed to run."""
    try:
        return _read_torchscript(data) if kind == "torchscript" else _read_exported(data)
    except ProgramError:
        raise
    except Exception as error:  # torch, json and zipfile raise many kinds for a damaged archive
        raise ProgramError(f"the {kind} file cannot be read: {reason(error)}") from error


def _read_torchscript(data: bytes) -> nn.Module:
    if not is_torchscript(data):
        raise ProgramError("not a TorchScript archive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        network: nn.Module = torch.jit.load(io.BytesIO(data), map_location="cpu")  # type: ignore[no-untyped-call]
    return network


def _read_exported(data: bytes) -> nn.Module:
    program = torch.export.load(io.BytesIO(_vetted(data)))
    _refuse_training_mode(program)
    return Exported(program.module(check_guards=False))  # guards are code; there are none


def _vetted(data: bytes) -> bytes:
    """The archive, vetted and rewritten.

    Torch's zip reader may understand a manipulated table of contents in another way than Python's. It therefore reads
    a new archive that consists of exactly the bytes that were vetted.
    """
    entries = _read_entries(data)
    strange = sorted(name for name in entries if not _ENTRY.fullmatch(name))
    if strange:
        raise ProgramError(f"the exported program has entries that are not allowed: {', '.join(strange)}")
    _vet_graph(json.loads(entries["models/model.json"]))
    _vet_payloads([json.loads(entries[name]) for name in entries if name.endswith("_config.json")])
    _vet_inputs(entries["data/sample_inputs/model.pt"])
    rewritten = io.BytesIO()
    with zipfile.ZipFile(rewritten, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(f"program/{name}", content)
    return rewritten.getvalue()


def _read_entries(data: bytes) -> dict[str, bytes]:
    if not is_exported(data):
        raise ProgramError("not an archive of torch.export.save")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ProgramError("the exported program has compressed entries")
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _vet_inputs(data: bytes) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # whatever the reason, torch would fall back to unpickling
        raise ProgramError(f"the sample inputs of the exported program are not plain tensors: {error}") from error


def _vet_payloads(configs: list[Any]) -> None:
    if any(pickled is not False for pickled in _found(configs, "use_pickle")):
        raise ProgramError("the exported program has pickled tensors")
    for path in _found(configs, "path_name"):
        if not re.fullmatch(r"(weight|tensor)_\d+", str(path)):
            raise ProgramError(f"the exported program has a constant {path!r} that is not a tensor")


def _vet_graph(program: Any) -> None:
    for guards in _found(program, "guards_code"):
        if guards:
            raise ProgramError(f"the exported program has guards, which are code: {guards}")
    for expression in _found(program, "expr_str"):
        if not _SYMBOL.fullmatch(str(expression)):
            raise ProgramError(f"the exported program has a shape expression that is not a symbol: {expression!r}")
    for node in (node for nodes in _found(program, "nodes") for node in nodes):
        if not _OPERATOR.fullmatch(node["target"]):
            raise ProgramError(f"the exported program has an operator that is not an aten operator: {node['target']}")


def _found(tree: Any, key: str) -> Iterator[Any]:
    """Every value under this key, at any depth of a JSON tree."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _found(branch, key)


def _refuse_training_mode(program: torch.export.ExportedProgram) -> None:
    # A graph has no eval(): it stays in the mode in which it was exported.
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for argument, value in zip(schema.arguments if schema else (), node.args, strict=False):
            if argument.name in ("train", "training") and value is True:
                raise ProgramError(
                    f"the program was exported in training mode: {node.target} ({node.name}); export it after eval()"
                )


def _entries(data: bytes) -> list[str]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except Exception:  # zipfile raises many kinds for a file that is not an archive
        return []
