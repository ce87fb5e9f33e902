"""Programs of `torch.export`: vetting and reading.

`torch.export.load` turns a file into Python source and executes it: names of tensors become names of variables, shape
expressions and guards are evaluated, tree specifications import modules, metadata are looked up in torch. It also
unpickles tensors marked `use_pickle`, opaque constants, and sample inputs that fail to load as weights. The archive is
therefore vetted and written again. It may contain only the entries that a plain classifier needs: raw tensors, sample
inputs that load as weights (so that torch never reaches its fallback), plain names, symbols as shape expressions, one
tensor in and one out, no guards, no subgraphs, and the operators of classifiers. Metadata are left out.
"""

from __future__ import annotations

import ast
import copy
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from models import archive
from models.errors import ProgramError
from models.operators import OF_CLASSIFIERS, SYMBOLIC, is_allowed
from smoothcert.engine.form import placed

_KEPT = re.compile(
    r"models/model\.json|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)|data/sample_inputs/model\.pt"
    r"|archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
)
_DROPPED = re.compile(r"(?!)")
_BATCH_NORM = "torch.ops.aten._native_batch_norm_legit_no_training.default"
"""The form of `batch_norm` in a decomposed program, which does not check its arguments; `batch_norm` runs instead."""
_SYMBOL = re.compile(r"[su]\d+", re.ASCII)
_SHAPE_FUNCTIONS = frozenset({"Symbol", "Integer", "Mul", "Add", "FloorDiv", "Mod", "Min", "Max"})
"""The functions of shape expressions. A power is left out, because a few of them take all memory."""
_NAME = re.compile(r"((?!__\w*__(\.|$))\w+(\.(?!__\w*__(\.|$))\w+)*)?", re.ASCII)
"""Names of tensors and modules: torch writes them into Python source. A name of Python's own (`__x__`) is not one."""
_PLAIN_ARGUMENTS = """
    as_none as_tensor as_tensors as_int as_ints as_float as_floats as_bool as_bools as_string as_sym_int as_sym_ints
    as_sym_float as_sym_floats as_sym_bool as_sym_bools as_scalar_type as_memory_format as_layout as_device
    as_optional_tensor as_optional_tensors as_name as_expr
"""
_ARGUMENTS = frozenset(_PLAIN_ARGUMENTS.split())
"""The kinds of arguments that are data; the others are graphs, operators, strings as lists, and foreign objects."""
_WORD = re.compile(r"[a-zA-Z]\w*|[a-zA-Z., ]+->[a-zA-Z. ]*", re.ASCII)
"""The mode of an operator, or the equation of `einsum`."""
_FLOAT = re.compile(r"-?Infinity|NaN")
"""The numbers that JSON cannot hold."""
_LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
_POSITIONAL = {"type": "builtins.tuple", "context": "null", "children_spec": [_LEAF]}
_KEYWORDS = {"type": "builtins.dict", "context": "[]", "children_spec": []}
_ONE_IN = [1, {"type": "builtins.tuple", "context": "null", "children_spec": [_POSITIONAL, _KEYWORDS]}]
_ONE_OUT = [1, _LEAF]
"""The trees of arguments and results of a function from one tensor to one tensor."""


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


def read(data: bytes) -> nn.Module:
    """The network of an exported program."""
    program = torch.export.load(io.BytesIO(archive.write(_vetted(data))))
    network = program.module(check_guards=False)  # guards are code; there are none
    for node in network.graph.nodes:
        if str(node.target) == _BATCH_NORM.removeprefix("torch.ops."):
            node.target = _batch_norm
    network.recompile()
    return Exported(network)


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What the operator `_BATCH_NORM` returns, for arguments that fit each other."""
    normal = torch.batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps, False)
    return normal, x.new_zeros(0), x.new_zeros(0)


def _vetted(data: bytes) -> dict[str, bytes]:
    """The entries of the archive. The texts in JSON are vetted and serialised again."""
    entries = archive.read(data, kept=_KEPT, dropped=_DROPPED)
    _vet_inputs(entries["data/sample_inputs/model.pt"])
    for name in entries:
        if name.endswith(".json"):
            tree = json.loads(entries[name])
            if name.endswith("_config.json"):
                _vet_payloads(tree)
            else:
                _vet_nodes(tree)
            entries[name] = json.dumps(_plain(tree)).encode()
    return entries


def _vet_inputs(data: bytes) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # whatever the reason, torch would fall back to unpickling
        raise ProgramError(f"the sample inputs of the exported program are not plain tensors: {error}") from error


def _vet_payloads(config: Any) -> None:
    if any(pickled is not False for pickled in _found(config, "use_pickle")):
        raise ProgramError("the exported program has pickled tensors")
    for path in _found(config, "path_name"):
        if not re.fullmatch(r"(weight|tensor)_\d+", str(path)):
            raise ProgramError(f"the exported program has a constant {path!r} that is not a tensor")


def _vet_nodes(program: Any) -> None:
    for node in (node for nodes in _found(program, "nodes") for node in nodes):
        target = str(node["target"])
        known = re.fullmatch(r"torch\.ops\.(aten)\.(\w+)\.\w+|_operator\.(\w+)", target, re.ASCII)
        is_known = known and (known[3] in SYMBOLIC or (known[2] and is_allowed(f"aten::{known[2]}")))
        if not is_known and target != _BATCH_NORM:
            raise ProgramError(
                f"the exported program uses the operator {target}; only {OF_CLASSIFIERS}, are accepted, without "
                f"loops, branches and other subgraphs"
            )
        for argument in node["inputs"]:
            if argument["name"] in ("train", "training", "dropout_p") and any(argument["arg"].values()):
                raise ProgramError(
                    f"the program was exported in training mode: {target.removeprefix('torch.ops.')}; export it after "
                    f"eval()"
                )


def _plain(tree: Any, key: str = "") -> Any:
    """The tree without metadata; ProgramError for a text that torch could take for code."""
    if isinstance(tree, dict):
        for name in tree:
            if not _NAME.fullmatch(name):
                _refuse_text("name", name, "letters, digits, '_' and '.'")
            if name.startswith("as_") and name not in _ARGUMENTS:
                raise ProgramError(
                    f"the exported program has an argument of the kind {name}; only tensors, numbers and words are "
                    f"accepted"
                )
        return {name: {} if name == "metadata" else _plain(value, name) for name, value in tree.items()}
    if isinstance(tree, list):
        if key == "guards_code" and tree:
            raise ProgramError(f"the exported program has guards, which are code: {tree}; it must have none")
        return [_plain(value, key) for value in tree]
    if isinstance(tree, str):
        _vet_text(key, tree)
    return tree


def _vet_text(key: str, text: str) -> None:
    is_fine, what, accepted = _TEXTS.get(key, (_NAME.fullmatch, "name", "letters, digits, '_' and '.'"))
    if not is_fine(text):
        _refuse_text(what, text, accepted)


def _is_shape(text: str) -> bool:
    """Whether an expression, which torch evaluates as Python, consists of sums and products of symbols."""
    if _SYMBOL.fullmatch(text) or (text.isascii() and text.isdecimal()):
        return True
    for node in ast.walk(ast.parse(text[:10_000], mode="eval")):
        match node:
            case ast.Call(func=ast.Name(id=function)) if function in _SHAPE_FUNCTIONS:
                pass
            case ast.Name(id=function) if function in _SHAPE_FUNCTIONS:
                pass
            case ast.Constant(value=str(symbol)) if _SYMBOL.fullmatch(symbol):
                pass
            case ast.Constant(value=int()) | ast.Expression() | ast.keyword() | ast.Load() | ast.UnaryOp() | ast.USub():
                pass
            case _:
                return False
    return len(text) <= 10_000 and text.isascii()


_TEXTS: dict[str, tuple[Callable[[str], object], str, str]] = {
    "target": (str, "operator", "what `_vet_nodes` has let pass"),
    "expr_str": (_is_shape, "shape expression", f"numbers, symbols such as s0, {', '.join(sorted(_SHAPE_FUNCTIONS))}"),
    "as_string": (_WORD.fullmatch, "text", "a word, or an equation of einsum"),
    "as_float": (_FLOAT.fullmatch, "number", "a number, Infinity, -Infinity or NaN"),
    "as_floats": (_FLOAT.fullmatch, "number", "a number, Infinity, -Infinity or NaN"),
    "torch_version": (re.compile(r"[\w.+]*").fullmatch, "version", "such as 2.9.0+cpu"),
    "in_spec": (lambda text: json.loads(text) == _ONE_IN, "input", "one tensor"),
    "out_spec": (lambda text: json.loads(text) == _ONE_OUT, "output", "one tensor"),
}
"""For the texts under a key: whether one is accepted, what it is, and what is accepted."""


def _refuse_text(what: str, text: str, accepted: str) -> NoReturn:
    raise ProgramError(f"the exported program has the {what} {text[:200]!r}; accepted: {accepted}")


def _found(tree: Any, key: str) -> Iterator[Any]:
    """Every value under this key, at any depth of a JSON tree."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _found(branch, key)
