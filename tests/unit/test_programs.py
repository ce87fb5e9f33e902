from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from models.errors import ProgramError
from models.programs import is_exported, is_torchscript, read_program
from smoothcert.engine.form import prepare
from tests.support.networks import tiny
from tests.support.programs import SHAPE, edited, exported, poison, scripted


@pytest.fixture(scope="module")
def script() -> bytes:
    return scripted(tiny(0).eval())


@pytest.fixture(scope="module")
def program() -> bytes:
    return exported(tiny(0).eval())


@pytest.mark.parametrize("kind", ["torchscript", "exported"])
def test_a_program_is_the_network_it_was_made_of(kind: str, script: bytes, program: bytes) -> None:
    data = script if kind == "torchscript" else program
    assert (is_torchscript(data), is_exported(data)) == (kind == "torchscript", kind == "exported")
    form = prepare(read_program(kind, data), name="m", classes=3, input_shape=SHAPE)
    assert form.kind == {"torchscript": "frozen", "exported": "exported"}[kind]
    x = torch.rand(300, *SHAPE)
    with torch.no_grad():
        assert torch.allclose(form(x), tiny(0).eval()(x), atol=1e-5)
    form.network.train()
    assert torch.equal(form(x), form(x))


class Clamped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)[:, :3]
        return x.masked_fill(x < 0.5, float("-inf")).clamp(max=float("inf"))


@pytest.mark.parametrize("make", [scripted, exported])
def test_infinite_numbers_are_numbers(make: Callable[[nn.Module], bytes]) -> None:
    x = torch.rand(3, *SHAPE)
    kind = "torchscript" if make is scripted else "exported"
    assert torch.equal(read_program(kind, make(Clamped()))(x), Clamped()(x))


def test_the_pickle_of_the_sample_inputs_is_not_executed(program: bytes, tmp_path: Path) -> None:
    bad = edited(program, "data/sample_inputs/model.pt", lambda _: poison(tmp_path / "mark"))
    with pytest.raises(ProgramError, match="sample inputs of the exported program are not plain tensors"):
        read_program("exported", bad)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("prefix", ["opaque_obj_0", "custom_obj_0"])
def test_an_object_among_the_constants_is_not_unpickled(program: bytes, tmp_path: Path, prefix: str) -> None:
    bad = edited(program, f"data/constants/{prefix}", lambda _: poison(tmp_path / "mark"))
    with pytest.raises(ProgramError, match=f"entries that are not allowed: data/constants/{prefix}"):
        read_program("exported", bad)
    config = {"config": {"x": {"path_name": prefix, "is_param": False, "use_pickle": False, "tensor_meta": None}}}
    bad = edited(program, "data/constants/model_constants_config.json", lambda _: json.dumps(config).encode())
    with pytest.raises(ProgramError, match=f"'{prefix}' that is not a tensor"):
        read_program("exported", bad)
    assert not (tmp_path / "mark").exists()


def test_pickled_weights_are_not_unpickled(program: bytes) -> None:
    def pickled(config: bytes) -> bytes:
        return config.replace(b'"use_pickle": false', b'"use_pickle": true')

    with pytest.raises(ProgramError, match="pickled tensors"):
        read_program("exported", edited(program, "data/weights/model_weights_config.json", pickled))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"torch.ops.aten.relu.default", b"torch.load", "uses the operator torch.load; only"),
        (b"Symbol('s", b"print('s", r"has the shape expression \"print\('s77'.*; accepted: numbers, symbols"),
        (b"Symbol('s", b"Symbol('", "has the shape expression"),
        (b"Symbol('s77'", b"Symbol(this.s", "has the shape expression"),
        (b"Symbol('s77', positive=True, integer=True)", b"(lambda: 1)()", "has the shape expression"),
        (b"Symbol('s77', positive=True, integer=True)", b"Symbol", "cannot be read"),
        (b'"guards_code": []', b'"guards_code": ["print()"]', "has guards, which are code"),
    ],
)
def test_code_in_the_graph_is_refused(program: bytes, old: bytes, new: bytes, message: str) -> None:
    def edit(graph: bytes) -> bytes:
        assert old in graph
        return graph.replace(old, new)

    with pytest.raises(ProgramError, match=message):
        read_program("exported", edited(program, "models/model.json", edit))


def test_a_program_exported_in_training_mode_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"exported in training mode: aten\.\w+"):
        read_program("exported", exported(tiny(0).train()))


def test_torchscript_traced_in_training_mode_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"traced in training mode: it has aten::\w+ in training mode"):
        read_program("torchscript", scripted(tiny(0).train()))


def with_byte(data: bytes, place: int, byte: int) -> bytes:
    return data[:place] + bytes([byte]) + data[place + 1 :]


@pytest.mark.parametrize("kind", ["torchscript", "exported"])
def test_a_damaged_table_of_contents_is_refused(kind: str, script: bytes, program: bytes) -> None:
    data = script if kind == "torchscript" else program
    entry = data.rindex(b"PK\x01\x02")  # this is the last entry of the zip's central directory
    not_utf8, version_of_zip = with_byte(data, entry + 46, 0xB0), with_byte(data, entry + 6, 0xFF)
    not_utf8 = with_byte(not_utf8, entry + 9, data[entry + 9] | 0x08)  # this flag says that the name is UTF-8
    for damaged in (not_utf8, version_of_zip):
        assert not is_torchscript(damaged)
        assert not is_exported(damaged)
        with pytest.raises(ProgramError, match="not a"):
            read_program(kind, damaged)


@pytest.mark.parametrize("graph", [b"\xff", b"[]", b"{}", b'{"nodes": [1]}', b"[" * 100_000])
def test_a_damaged_graph_is_refused(program: bytes, graph: bytes) -> None:
    with pytest.raises(ProgramError, match="the exported file cannot be read: "):
        read_program("exported", edited(program, "models/model.json", lambda _: graph))


@pytest.mark.parametrize("kind", ["torchscript", "exported"])
def test_what_is_no_program_is_refused(kind: str, script: bytes, program: bytes) -> None:
    other = program if kind == "torchscript" else script
    for data in (b"", b"nonsense", other, (script if kind == "torchscript" else program)[:-100]):
        with pytest.raises(ProgramError, match=r"archive|read"):
            read_program(kind, data)
