"""A member file that is a program reads no file, writes none, does not loop and executes no Python.

Without this vetting, files of both formats could read and write files by `aten::from_file`; TorchScript did so while it
was loaded; and names in an exported program were executed as Python.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models import confinement
from models.addition import Addition, add
from models.confinement import Suspect, try_out
from models.description import FILE, Description, MemberFile, write
from models.errors import ProgramError
from models.programs import read_program
from models.registry import load
from smoothcert import Gaussian
from tests.support.api import ROOT
from tests.support.networks import tiny
from tests.support.programs import SHAPE, edited, exported, scripted

HARMLESS = "def forward(self, x: Tensor) -> Tensor:\n    return x.flatten(1)[:, :3]\n"
IMAGES = torch.rand(2, *SHAPE)


def saved(*sources: str, **options: Any) -> bytes:
    """A TorchScript file whose network has methods of this source."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = type(torch.jit.ScriptModule)("Evil", (torch.jit.ScriptModule,), {})()
        for source in sources:
            module.define(source)
        torch.jit.save(module, buffer, **options)
    return buffer.getvalue()


def entry_of(data: bytes, text: bytes) -> str:
    """The name of the source file in the archive that has this text."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".py") and text in archive.read(name))
    return name.partition("/")[2]


def resourced(old: str, new: str) -> bytes:
    """The harmless file with a part of its source replaced."""
    data = saved(HARMLESS)

    def edit(source: bytes) -> bytes:
        assert old.encode() in source
        return source.replace(old.encode(), new.encode())

    return edited(data, entry_of(data, b"def forward"), edit)


def forward(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def forward(self, x: Tensor) -> Tensor:\n{body}    return x.flatten(1)[:, :3]\n"


def refused(kind: str, data: bytes, message: str) -> None:
    """Assert that the file is refused before anything runs; otherwise it would do its harm here."""
    with pytest.raises(ProgramError, match=message):
        read_program(kind, data)(IMAGES.clone())


def test_the_harmless_file_is_read() -> None:
    assert read_program("torchscript", saved(HARMLESS))(IMAGES).shape == (2, 3)


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        ('x = x + torch.from_file("MARK", True, 8)[0]', "aten::from_file"),
        ('x = x + torch.from_file("/etc/passwd", False, 8, dtype=torch.uint8)[0]', "aten::from_file"),
        ("if bool(x.sum() > 1e9): x = x + torch.from_file('MARK', True, 8)[0]", "aten::from_file"),
        ("print(x)", "prim::Print"),
        ("while True: x = x + 1", "prim::Loop"),
        ("for i in range(1 << 62): x = x + 1", "prim::Loop"),
        ("x = torch.rand_like(x)", "aten::rand_like"),
        ("x = x + torch.empty([64])[0]", "aten::empty"),
        ("x = x + torch.zeros([64]).bernoulli_()[0]", "aten::bernoulli_"),
        ("x = x + torch.bernoulli(x)", "aten::bernoulli"),
        ("x.resize_([10000])", "aten::resize_"),
        ("x = torch.as_strided(x, [100], [1])", "aten::as_strided"),
        ("torch.save(x, 'MARK')", "aten::save"),
        ("torch.manual_seed(0)", "aten::manual_seed"),
        ("x = torch.jit.wait(torch.jit.fork(self.other, x))", "prim::fork"),
    ],
)
def test_torchscript_uses_only_the_operators_of_classifiers(tmp_path: Path, line: str, operator: str) -> None:
    mark = tmp_path / "mark"
    keyword, _, rest = line.partition(": ")
    lines = [f"{keyword}:", f"    {rest}"] if keyword.startswith(("if", "for", "while")) else [line]
    data = saved(HARMLESS.replace("forward", "other"), forward(*(line.replace("MARK", str(mark)) for line in lines)))
    refused("torchscript", data, rf"uses the operator {operator} in .*; only the operators of image classif")
    assert not mark.exists()


class Reader(nn.Module):
    def forward(self, x):  # TorchScript would not understand annotations that are text
        return x + read_from(x)


def read_from(x):
    return torch.from_file("/etc/passwd", False, 8)[0]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Identity(), nn.Sequential(Reader()))

    def forward(self, x):
        return self.layers(x).flatten(1)[:, :3]


def test_torchscript_hides_no_operator_in_a_submodule_or_method(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Nested()), buffer)
    refused("torchscript", buffer.getvalue(), "aten::from_file in Nested.forward")
    other = forward(f'x = x + torch.from_file("{tmp_path}/mark", True, 8)[0]').replace("forward", "other")
    refused("torchscript", saved(HARMLESS, other), r"aten::from_file in \w+\.other")
    refused("torchscript", saved(HARMLESS, other.replace("other", "__len__")), r"aten::from_file in \w+\.__len__")
    assert not (tmp_path / "mark").exists()


def test_torchscript_calls_no_custom_operator() -> None:
    with torch.library._scoped_library("attack", "DEF") as library:
        library.define("touch(Tensor x) -> Tensor")
        library.impl("touch", _fail, "CPU")
        refused("torchscript", saved(forward("x = torch.ops.attack.touch(x)")), "uses the operator attack::touch")


def _fail(x: Tensor) -> Tensor:
    raise AssertionError("executed")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x: Tensor) ->", "x: Tensor, y: Tensor=EVIL) ->", "a default value that is not a literal"),
        ("x: Tensor) ->", "x: Tensor, *, y: Tensor=EVIL) ->", "a default value that is not a literal"),
        ("  def forward", "  y : Final[Tensor] = EVIL\n  def forward", "a declaration that is not"),
        ("  def forward", "  y = EVIL\n  def forward", "a declaration that is not"),
        ("  def forward", "  def __setstate__(self, y: int) -> None:\n    EVIL\n  def forward", "__setstate__"),
        ("  def forward", '  __forward_hooks__ = ["evil"]\n  def forward', "__forward_hooks__"),
        ("  def forward", "  # a comment\n  def forward", "'# a comment', which torch never writes"),
        ("  def forward", "  y = '''\n'''\n  def forward", "which torch never writes"),
        ("  def forward", "  y = \\\n  1\n  def forward", "continued by"),
        ("  def forward", "  y = 1; z = 1\n  def forward", "';', which torch never writes"),
        ("  def forward", "\x0c  def forward", "control characters"),
        ("  def forward", "  é : int\n  def forward", "cannot be read: UnicodeDecodeError"),
        ("class ", "EVIL\nclass ", "a declaration that is not"),
    ],
)
def test_torchscript_executes_nothing_while_it_is_read(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Torch executes default values and constants before `torch.jit.load` returns."""
    mark = tmp_path / "mark"
    data = resourced(old, new.replace("EVIL", f'torch.from_file("{mark}", True, 8)'))
    refused("torchscript", data, message)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["posix\nsystem", "__torch__.torch.classes.quantized\nConv2dPackedParamsBase"])
def test_torchscript_has_no_foreign_objects(name: str) -> None:
    pickled = b"\x80\x02c" + name.encode() + b"\n."
    refused("torchscript", edited(saved(HARMLESS), "data.pkl", lambda _: pickled), "data.pkl .* names ")
    refused(
        "torchscript", edited(saved(HARMLESS), "constants.pkl", lambda _: b"\x80\x02\x8c\x01a\x8c\x01b\x93."), "opcode"
    )


class Holding(nn.Module):
    """A network that returns some of the seven numbers that its file holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.arange(7.0))

    def forward(self, x):
        return x.flatten(1)[:, :3] * 0 + self.numbers[:3] + torch.tensor([4.0, 5.0, 6.0])


def traced() -> bytes:
    """Its numbers are in data.pkl, and the three constants in constants.pkl."""
    return scripted(Holding().eval())


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        ("data.pkl", b"K\x07tQ", b"K\x40tQ"),  # 64 numbers, of which the file has 7
        ("data.pkl", b"K\x07tQ", b"J\xff\xff\xff\xfftQ"),  # -1 of them: a storage without an end
        ("data.pkl", b"torch\nFloatStorage", b"torch\nDoubleStorage"),
        ("data.pkl", b"torch\nFloatStorage", b"torch\nQInt8Storage"),
        ("constants.pkl", b"K\x03tQ", b"K\x40tQ"),
    ],
)
def test_torchscript_claims_no_numbers_that_its_file_does_not_have(entry: str, old: bytes, new: bytes) -> None:
    """Torch would take the worker's memory behind the entry for the numbers, to read and to overwrite it."""

    def edit(pickled: bytes) -> bytes:
        assert old in pickled
        return pickled.replace(old, new)

    assert torch.equal(read_program("torchscript", traced())(IMAGES), torch.tensor([[4.0, 6.0, 8.0]]).expand(2, 3))
    refused("torchscript", edited(traced(), entry, edit), f"{entry} .* all numbers must be in the archive")


def test_torchscript_describes_a_storage_in_the_open() -> None:
    """The description of 64 numbers is put into the memo, so that a harmless one can stand in its place."""
    described = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x40t"

    def edit(pickled: bytes) -> bytes:
        assert pickled.count(b"tQ") == 1
        return pickled.replace(b"\x80\x02", b"\x80\x02" + described + b"q\xf00", 1).replace(b"tQ", b"h\xf0Q")

    refused("torchscript", edited(traced(), "data.pkl", edit), "describes a storage in a way that torch never does")


def test_torchscript_carries_no_other_files() -> None:
    data = saved(HARMLESS, _extra_files={"payload": b"anything"})
    refused("torchscript", data, "entries that are not allowed: extra/payload; only the weights")


def test_a_small_archive_does_not_become_a_large_one() -> None:
    buffer = io.BytesIO(saved(HARMLESS))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/code/bomb.py", bytes(70 * 2**20))
    refused("torchscript", buffer.getvalue(), "grows by more than")


@cache
def program() -> bytes:
    """A harmless exported program."""
    return exported(tiny(0).eval())


def regraphed(edit: Callable[[Any], None]) -> bytes:
    """The exported program with its graph changed."""

    def whole(content: bytes) -> bytes:
        tree = json.loads(content)
        edit(tree)
        return json.dumps(tree).encode()

    return edited(program(), "models/model.json", whole)


def renamed(old: str, new: str) -> bytes:
    """The exported program with one text of its graph replaced, whether it is a value or a key."""

    def everywhere(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {(new if key == old else key): everywhere(value) for key, value in tree.items()}
        if isinstance(tree, list):
            return [everywhere(value) for value in tree]
        return new if tree == old else tree

    return edited(program(), "models/model.json", lambda content: json.dumps(everywhere(json.loads(content))).encode())


def in_place_of_relu(target: str, *inputs: tuple[str, dict[str, Any]]) -> bytes:
    """The exported program with another operator, called with these arguments, in place of relu."""

    def edit(tree: Any) -> None:
        (node,) = (node for node in tree["graph_module"]["graph"]["nodes"] if "relu" in node["target"])
        node["target"] = target
        if inputs:
            node["inputs"] = [{"name": name, "arg": value, "kind": 1} for name, value in inputs]

    return regraphed(edit)


@pytest.mark.parametrize("old", ["x", "p_conv_weight", "conv.weight"])
def test_a_name_in_an_exported_program_is_no_python(tmp_path: Path, old: str) -> None:
    """Torch writes the names of placeholders into the Python source that it executes."""
    mark = tmp_path / "mark"
    for code in (
        f"x=__import__('pathlib').Path({str(mark)!r}).touch()",
        f"x=open({str(mark)!r}, 'w')",
        f"""a"), __import__("pathlib").Path("{mark}").touch(), ("b""",
    ):
        refused("exported", renamed(old, code), "the exported program has the name .* accepted: letters")
    refused("exported", renamed(old, "__class__"), "has the name '__class__'")
    assert not mark.exists()


@pytest.mark.parametrize("spec", ["in_spec", "out_spec"])
def test_a_tree_in_an_exported_program_imports_nothing(spec: str) -> None:
    """Torch imports the module that the context of a tree names."""

    def edit(tree: Any) -> None:
        for entry in tree["graph_module"]["module_call_graph"]:
            if entry["signature"]:
                context = json.dumps(
                    {"default_factory_module": "this", "default_factory_name": "s", "dict_context": []}
                )
                kind = {"type": "collections.defaultdict", "context": context, "children_spec": []}
                entry["signature"][spec] = json.dumps([1, kind])

    sys.modules.pop("this", None)
    refused("exported", regraphed(edit), f"the exported program has the {spec[:-5]}put .*accepted: one tensor")
    assert "this" not in sys.modules


def test_an_exported_program_reads_and_writes_no_file(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    arguments = ("filename", {"as_string": str(mark)}), ("shared", {"as_bool": True}), ("size", {"as_int": 8})
    refused(
        "exported",
        in_place_of_relu("torch.ops.aten.from_file.default", *arguments),
        r"uses the operator torch\.ops\.aten\.from_file\.default; only the operators of image classifiers",
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.rand_like.default",
        "torch.ops.aten.bernoulli.default",
        "torch.ops.aten.empty_like.default",
        "torch.ops.attack.touch.default",
        "torch.ops.higher_order.cond",
        "torch.ops.prim.device.default",
        "torch.ops.aten.relu.default.__class__",
        "_operator.attrgetter",
        "math.factorial",
        "#extension:op",
        "builtins.print",
    ],
)
def test_an_exported_program_uses_only_the_operators_of_classifiers(target: str) -> None:
    refused("exported", in_place_of_relu(target), f"uses the operator {re.escape(target)}; only")


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)[:, :3]
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def test_an_exported_program_has_no_subgraphs() -> None:
    refused("exported", exported(Branching()), r"uses the operator torch\.ops\.higher_order\.cond")


@pytest.mark.parametrize("kind", ["as_graph", "as_operator", "as_custom_obj", "as_anything"])
def test_an_argument_of_an_exported_program_is_data(kind: str) -> None:
    data = in_place_of_relu("torch.ops.aten.relu.default", ("self", {kind: {"name": "x"}}))
    refused("exported", data, f"an argument of the kind {kind}; only tensors, numbers and words are accepted")


def test_a_text_in_an_exported_program_is_a_word() -> None:
    data = in_place_of_relu("torch.ops.aten.gelu.default", ("approximate", {"as_string": "/etc/passwd"}))
    refused("exported", data, "has the text '/etc/passwd'; accepted: a word")


def test_the_batch_norm_of_a_decomposed_program_reads_no_memory_behind_its_means() -> None:
    """Torch's operator does not compare the numbers of means and channels."""
    network = nn.Sequential(nn.Conv2d(1, 3, 4), nn.BatchNorm2d(3), nn.Flatten()).eval()
    nn.init.normal_(network.get_buffer("1.running_mean"))
    buffer, batch = io.BytesIO(), {0: torch.export.Dim("batch", min=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = torch.export.export(network, (IMAGES,), dynamic_shapes=(batch,)).run_decompositions()
        torch.export.save(whole, buffer)
    data = buffer.getvalue()
    assert torch.equal(read_program("exported", data)(IMAGES), network(IMAGES))

    def shorter(content: bytes) -> bytes:
        tree = json.loads(content)
        tree["config"]["1.running_mean"]["tensor_meta"]["sizes"] = [{"as_int": 1}]
        return json.dumps(tree).encode()

    evil = edited(data, "data/weights/model_weights_config.json", shorter)
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements not 1"):
        read_program("exported", evil)(IMAGES)
    spelled = "x = torch._native_batch_norm_legit_no_training(x, None, None, x[0, 0, 0], x[0, 0, 0], 0.1, 1e-5)[0]"
    refused("torchscript", saved(forward(spelled)), "uses the operator aten::_native_batch_norm_legit_no_training")


PROPERTIES = Addition(classes=("a", "b", "c"), input_shape=SHAPE, noise=Gaussian(0.25))


def test_an_attack_is_refused_by_add_and_by_the_worker(tmp_path: Path) -> None:
    """A worker vets what it loads and does not rely on `add`."""
    zoo, file = tmp_path / "zoo", tmp_path / "evil.pt"
    evil = saved(forward(f'x = x + torch.from_file("{tmp_path}/mark", True, 8)[0]'))
    file.write_bytes(evil)
    with pytest.raises(ProgramError, match=r"evil\.pt: the TorchScript file uses the operator aten::from_file"):
        add("evil", [file], PROPERTIES, zoo=zoo)
    member = MemberFile(file.name, hashlib.sha256(evil).hexdigest(), len(evil))
    folder = zoo / "evil"
    folder.mkdir()
    (folder / file.name).write_bytes(evil)
    (folder / FILE).write_text(write(Description("torchscript", ("a", "b", "c"), SHAPE, Gaussian(0.25), (member,))))
    with pytest.raises(
        ProgramError, match=r"zoo/evil/evil\.pt: the TorchScript file uses the operator aten::from_file"
    ):
        load("evil", zoo=zoo)
    assert not (tmp_path / "mark").exists()


def test_a_network_that_takes_all_memory_or_always_fails_is_refused_by_the_child() -> None:
    """It fails in the confined process, and the worker never runs it. Without a limit, it would take 3.4 GB."""
    greedy = saved(forward("x = x + x.repeat([1 << 14, 1, 40, 40]).sum()"))
    failing = saved(forward("if x.size(0) > 0:", '    raise RuntimeError("never")'))
    fine = saved(HARMLESS)
    errors = try_out([Suspect("torchscript", data, SHAPE) for data in (greedy, failing, fine)])
    message = r"the program cannot take images of shape \(2, 1, 4, 4\): "
    assert re.match(rf"{message}.*allocate", str(errors[0]))
    assert re.match(rf"{message}.*never", str(errors[1]))
    assert errors[2] is None


def test_a_child_that_ends_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "_CHILD", ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"])
    suspects = [Suspect("torchscript", saved(forward(f"x = x + {number}")), SHAPE) for number in range(2)]
    for error in try_out(suspects):
        assert str(error) == "the program was tried in a confined process, which was ended by SIGSEGV"
    monkeypatch.setattr(confinement, "_CHILD", ["-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(confinement, "START_SECONDS", 0.1)
    monkeypatch.setattr(confinement, "SECONDS", 0.1)
    assert "which took more than 0.2 s" in str(try_out(suspects[:1]))
    monkeypatch.setattr(confinement, "_CHILD", ["-c", "raise SystemExit('something')"])
    monkeypatch.setattr(confinement, "START_SECONDS", 60)
    assert "which ended with exit code 1: something" in str(try_out(suspects[:1]))
    for answer in ("", "print('[]')", "print(1)"):
        monkeypatch.setattr(confinement, "_CHILD", ["-c", answer])
        assert "which ended without a verdict" in str(try_out(suspects[:1]))


def test_a_file_that_passed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    suspect = Suspect("torchscript", saved(forward("x = x * 2")), SHAPE)
    monkeypatch.setattr(confinement, "_CHILD", ["-c", "print('[null]')"])
    assert try_out([suspect]) == [None]
    monkeypatch.setattr(confinement, "_CHILD", ["-c", "raise SystemExit('tried again')"])
    assert try_out([suspect]) == [None]
    assert "tried again" in str(try_out([replace(suspect, input_shape=(1, 8, 8))]))


UNVETTED = """
import socket, sys
from pathlib import Path
from models import confinement, torchscript
suspect = confinement.Suspect("torchscript", Path(sys.argv[1]).read_bytes(), (1, 4, 4))
confinement._prepare({"torchscript"})
confinement._confine([suspect])
for attempt in (lambda: open("/etc/passwd"), lambda: open(sys.argv[2], "w"), socket.socket):
    try:
        attempt()
    except OSError as error:
        print(error.strerror)
torchscript._vet_source = torchscript._vet_methods = torchscript._vet_frozen = lambda *arguments: None
print(confinement._tried(suspect))
"""


def test_what_slips_through_the_vetting_cannot_open_a_file_in_the_child(tmp_path: Path) -> None:
    """The vetting is switched off in this child, so that only the confinement is left."""
    file, mark = tmp_path / "evil.pt", tmp_path / "mark"
    file.write_bytes(resourced("x: Tensor) ->", f'x: Tensor, y: Tensor=torch.from_file("{mark}", True, 8)) ->'))
    child = subprocess.run(
        [sys.executable, "-c", UNVETTED, str(file), str(mark)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    *denied, verdict = child.stdout.splitlines()
    assert denied == ["Too many open files"] * 3
    assert "unable to open file" in verdict
    assert not mark.exists()
