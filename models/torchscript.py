"""TorchScript files: vetting and reading.

`torch.jit.load` executes code of the file before it returns: the default values of parameters, the values of class
constants, and every `__setstate__`. The sources are therefore read first, and outside the bodies of functions they may
contain nothing but names, types and literals. A pickle of the file must not claim more numbers than the file has, since
torch does not compare. Then torch reads an archive of exactly these bytes, which executes
nothing, and the graphs of all methods are vetted as torch understood them, with all calls inlined. The branches for
training (which `eval()` switches off) may have a few operators more, so the graph is vetted a second time as it is
after freezing.
"""

from __future__ import annotations

import ast
import io
import pickletools
import re
import tokenize
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from models import archive
from models.errors import ProgramError
from models.operators import OF_CLASSIFIERS, is_allowed, is_unreached

_KEPT = re.compile(
    r"data\.pkl|constants\.pkl|(data|constants)/\d+|code/[\w/]+\.py|version|byteorder|\.data/(version|serialization_id)"
)
_DROPPED = re.compile(r"code/[\w/]+\.debug_pkl|code/[\w/]+\.py\.debug_pkl|traced_inputs(\.pkl|/\d+)")
"""What torch writes beside a network and does not need to run it."""
_GLOBAL = re.compile(
    r"__torch__(?!\.torch\.classes\b)(\.\w+)* \w+|torch\._utils _rebuild_(tensor_v2|parameter)|collections OrderedDict"
    r"|torch \w+Storage|torch\.jit\._pickle (build_\w+list|restore_type_tag)"
)
_BYTES = {
    f"torch {name}Storage": size
    for size, names in {8: "Double Long", 4: "Float Int", 2: "Half BFloat16 Short", 1: "Char Byte Bool"}.items()
    for name in names.split()
}
"""The bytes of one number, for each type of storage that a classifier may have."""
_RUN_BY_TORCH = {"__setstate__", "__getstate__", "__forward_hooks__", "__forward_pre_hooks__"}
"""Names under which torch calls code of the file by itself."""
_DECLARATION = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.List, ast.Tuple, ast.Load, ast.Store)
_VALUE = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)


def read(data: bytes) -> nn.Module:
    """The network of a TorchScript file, of which nothing has been executed."""
    entries = archive.read(data, kept=_KEPT, dropped=_DROPPED)
    for name, content in entries.items():
        if name.endswith(".pkl"):
            _vet_pickle(name, content)
            _vet_storages(name, content, entries)
        if name.endswith(".py"):
            _vet_source(name, content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        network: nn.Module = torch.jit.load(io.BytesIO(archive.write(entries)), map_location="cpu")  # type: ignore[no-untyped-call]
        _vet_methods(network)
        _vet_frozen(network)
    return network


def _vet_pickle(name: str, content: bytes) -> None:
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            raise ProgramError(f"{name} of the TorchScript file has the opcode {opcode.name}, which torch never writes")
        if opcode.name == "GLOBAL" and not _GLOBAL.fullmatch(str(argument)):
            raise ProgramError(
                f"{name} of the TorchScript file names {str(argument)!r}; only tensors, lists and the modules "
                f"of the file itself are accepted"
            )


def _vet_storages(name: str, content: bytes, entries: Mapping[str, bytes]) -> None:
    """Refuse a storage of more numbers than its entry has: torch would take the memory behind the entry for them."""
    for steps in _storages(content):
        match steps:
            case [
                ("MARK", _),
                ("BINUNICODE", "storage"),
                ("GLOBAL", kind),
                ("BINUNICODE", key),
                ("BINUNICODE", _),
                ("BININT1" | "BININT2" | "BININT" | "LONG1", count),
                ("TUPLE", _),
            ]:
                bytes_each = _BYTES.get(kind)
                held = len(entries.get(f"{name.removesuffix('.pkl')}/{key}", b""))
                if bytes_each is None or not 0 <= count * bytes_each <= held:
                    raise ProgramError(
                        f"{name} of the TorchScript file has a storage {key!r} of {count} numbers ({kind}), of which "
                        f"the archive has {held} bytes; all numbers must be in the archive, and of one of the types "
                        f"{', '.join(_BYTES)}"
                    )
            case _:
                raise ProgramError(f"{name} of the TorchScript file describes a storage in a way that torch never does")


def _storages(content: bytes) -> Iterator[list[tuple[str, Any]]]:
    """For each storage of a pickle, the seven steps that describe it: opcodes and their arguments."""
    steps: deque[tuple[str, Any]] = deque(maxlen=7)
    memo: dict[Any, tuple[str, Any]] = {}
    for opcode, argument, _ in pickletools.genops(content):
        match opcode.name:
            case "BINPERSID":
                yield list(steps)
                steps.append((opcode.name, None))
            case "BINPUT" | "LONG_BINPUT":
                # Only what is pushed in one step is looked up. A tuple out of the memo must not pass for seven steps.
                memo[argument] = steps[-1] if steps[-1][0] in ("BINUNICODE", "GLOBAL") else ("", None)
            case "BINGET" | "LONG_BINGET":
                steps.append(memo.get(argument, ("", None)))
            case _:
                steps.append((opcode.name, argument))


def _vet_source(name: str, content: bytes) -> None:
    """Refuse source of which torch would execute something while it reads it, or which Python may read differently."""
    source = content.decode("ascii")
    if not source.replace("\n", "").isprintable():
        raise ProgramError(f"{name} of the TorchScript file has control characters, which torch never writes")
    _vet_tokens(name, source)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=function) if function in _RUN_BY_TORCH:
                _refuse_eager(name, node, f"the method {function}")
            case ast.FunctionDef(args=arguments):
                for value in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
                    if not _consists_of(value, _VALUE):
                        _refuse_eager(name, value, "a default value that is not a literal")
    for statement in _declarations(name, tree):
        _vet_declaration(name, statement)


def _vet_tokens(name: str, source: str) -> None:
    """Refuse what Python's lexer knows and TorchScript's may not, so that both see the same text."""
    in_strings = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            in_strings += token.string.count("\\")
            strange = token.string[0] not in "\"'" or token.string.startswith(('"""', "'''"))
        else:
            strange = token.type == tokenize.COMMENT or token.string in (";", ":=", "lambda")
        if strange:
            raise ProgramError(f"{name} of the TorchScript file has {token.string!r}, which torch never writes")
    if source.count("\\") != in_strings:
        raise ProgramError(
            f"{name} of the TorchScript file has a line that is continued by \\, which torch never writes"
        )


def _declarations(name: str, tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements outside functions; ProgramError for a class or function in an unusual place."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if isinstance(inner, ast.ClassDef):
                    _refuse_eager(name, inner, "a class in a class")
                if not isinstance(inner, ast.FunctionDef):
                    yield inner
        elif not isinstance(statement, ast.FunctionDef):
            yield statement


def _vet_declaration(name: str, statement: ast.stmt) -> None:
    match statement:
        case ast.Pass():
            return
        case ast.Assign(targets=[ast.Name(id=hooks)], value=ast.List(elts=[_, *_])) if hooks in _RUN_BY_TORCH:
            _refuse_eager(name, statement, hooks)
        case ast.Assign(targets=[target], value=value):
            if _consists_of(target, _DECLARATION) and _consists_of(value, _DECLARATION + _VALUE):
                return
        case ast.AnnAssign(target=ast.Name(), annotation=kind, value=value):
            if _consists_of(kind, _DECLARATION) and (value is None or _consists_of(value, _VALUE)):
                return
    _refuse_eager(name, statement, "a declaration that is not a name, a type or a literal")


def _consists_of(tree: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    return all(isinstance(node, kinds) for node in ast.walk(tree))


def _refuse_eager(name: str, node: ast.AST, what: str) -> None:
    text = " ".join(ast.unparse(node).split())
    raise ProgramError(
        f"line {getattr(node, 'lineno', '?')} of {name} of the TorchScript file has {what}, which torch would execute "
        f"while it loads the file: {text[:100]!r}; code must be in methods that forward calls"
    )


def _vet_methods(network: Any) -> None:
    """Vet all methods of all modules with their calls inlined; torch calls some by name, such as `__len__`."""
    for module in network.modules():
        for method in module._c._method_names():
            for node in _nodes(module._c._get_method(method).inlined_graph):
                if not (is_allowed(node.kind()) or is_unreached(node.kind()) or _is_filled(node)):
                    _refuse(node.kind(), f"{module.original_name}.{method}")


def _is_filled(node: Any) -> bool:
    """Whether a node makes an empty tensor that `bernoulli_` fills before anything reads it."""
    uses = [use.user for use in node.output().uses()] if node.kind() == "aten::empty" else []
    return bool(uses) and all(user.kind() == "aten::bernoulli_" for user in uses)


def _vet_frozen(network: Any) -> None:
    """Vet forward as it is in eval mode, without the branches for training."""
    frozen = torch.jit.freeze(network.eval(), optimize_numerics=False)
    for node in _nodes(frozen.graph):
        if not is_allowed(node.kind()):
            _refuse(node.kind(), f"{network.original_name}.forward in eval mode")
        if _trains(node):
            raise ProgramError(
                f"the TorchScript file was traced in training mode: it has {node.kind()} in training mode; trace it "
                f"after eval()"
            )


def _trains(node: Any) -> bool:
    """Whether a layer is in training mode by a constant."""
    schema = torch._C.parse_schema(node.schema()) if node.schema() != "(no schema)" else None
    for argument, value in zip(schema.arguments if schema else (), node.inputs(), strict=False):
        if argument.name in ("train", "training", "dropout_p") and value.toIValue():
            return True
    return False


def _nodes(block: Any) -> Iterator[Any]:
    """All nodes of a graph or block, and of the blocks in them."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _refuse(operator: str, where: str) -> None:
    raise ProgramError(
        f"the TorchScript file uses the operator {operator} in {where}; only {OF_CLASSIFIERS}, are accepted, without "
        f"loops"
    )
