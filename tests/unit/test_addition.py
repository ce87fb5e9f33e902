"""An ensemble is added whole or not at all, and files that cannot be added are named."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from models.addition import Addition, add
from models.architectures import build
from models.errors import (
    DescriptionError,
    EnsembleNameError,
    FileError,
    ModelError,
    ProgramError,
    RegistryError,
)
from models.registry import describe, load
from smoothcert.engine.errors import MemberError
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, GaussianLinf
from tests.support.blur import Blur, known_blur
from tests.support.networks import tiny
from tests.support.pair import PROPERTIES, know_tiny, pair_zoo, weights_file
from tests.support.programs import exported, poison, scripted


@pytest.fixture(autouse=True)
def _tiny_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    know_tiny(monkeypatch)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    return pair_zoo(tmp_path)


def test_an_ensemble_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    files = [weights_file(tmp_path, 0), weights_file(tmp_path, 1, classes=4)]
    with pytest.raises(MemberError, match=r"member-1\.safetensors: the network has 4 outputs, and there are 3 class"):
        add("pair", files, PROPERTIES, zoo=tmp_path / "zoo")
    assert list((tmp_path / "zoo").iterdir()) == []


def test_programs_whose_classes_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.pt").write_bytes(scripted(tiny(0).eval()))
    (tmp_path / "two.pt").write_bytes(scripted(tiny(1, classes=4).eval()))
    with pytest.raises(MemberError, match=r"two\.pt: .* logits of shape \(256, 4\), not \(256, 3\)"):
        add("pair", [tmp_path / "one.pt", tmp_path / "two.pt"], PROPERTIES, zoo=tmp_path / "zoo")


def test_classes_that_were_assumed_are_told_as_such(tmp_path: Path) -> None:
    """A user who names no classes does not know that there are ten."""
    file = tmp_path / "three.pt"
    file.write_bytes(scripted(tiny(0).eval()))
    shape, sigma = PROPERTIES.input_shape, PROPERTIES.sigma
    with pytest.raises(MemberError, match=r"three\.pt: .*; those of CIFAR-10 were assumed, .*: --classes takes others"):
        add("one", [file], Addition(input_shape=shape, sigma=sigma), zoo=tmp_path / "zoo")
    with pytest.raises(MemberError, match=r"for each of the 2 classes that are named$"):
        add("one", [file], Addition(("a", "b"), shape, sigma=sigma), zoo=tmp_path / "zoo")


def test_every_kind_of_file_makes_a_member(tmp_path: Path) -> None:
    torch.save({"state_dict": {f"module.{k}": v for k, v in tiny(1).state_dict().items()}}, tmp_path / "b.pth")
    (tmp_path / "c.pt").write_bytes(scripted(tiny(2).eval()))
    (tmp_path / "d.pt2").write_bytes(exported(tiny(3).eval()))
    files = [weights_file(tmp_path, 0), tmp_path / "b.pth", tmp_path / "c.pt", tmp_path / "d.pt2"]
    ensemble = add("mixed", files, PROPERTIES, zoo=tmp_path / "zoo")
    architectures = [member.identity.architecture for member in ensemble.members]
    assert architectures == ["tiny", "tiny", "torchscript", "exported"]
    x = torch.rand(5, 1, 4, 4)
    with torch.no_grad():
        expected = torch.stack([tiny(seed).eval()(x) for seed in range(4)])
    assert torch.allclose(load("mixed", zoo=tmp_path / "zoo").logits(x), expected, atol=1e-5)


def test_a_pickle_is_never_executed(tmp_path: Path) -> None:
    for name in ("a.pt", "a.pth", "a.safetensors", "a.pt2"):
        (tmp_path / name).write_bytes(poison(tmp_path / "mark"))
        with pytest.raises(FileError, match=re.escape(name)) as refused:
            add("bad", [tmp_path / name], PROPERTIES, zoo=tmp_path / "zoo")
        assert "weights_only" not in str(refused.value), "torch's advice is to execute it"
    assert not (tmp_path / "mark").exists()


def test_what_the_records_agree_on_need_not_be_said(tmp_path: Path) -> None:
    properties = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4))
    files = [weights_file(tmp_path, seed, sigma=0.5, method="gaussian") for seed in (0, 1)]
    add("pair", files, properties, zoo=tmp_path / "zoo")
    description = describe("pair", zoo=tmp_path / "zoo")
    assert (description.architecture, description.noise, description.method) == ("tiny", Gaussian(0.5), "gaussian")
    files = [weights_file(tmp_path, 2, sigma=0.5), weights_file(tmp_path, 3, sigma=0.25)]
    seen = r"""noise is not given, and the members' records say {"sigma": 0.25}, {"sigma": 0.5}: give the noise"""
    with pytest.raises(RegistryError, match=seen):
        add("other", files, properties, zoo=tmp_path / "zoo")


def test_an_architecture_that_nobody_names_is_asked_for(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2, 2)}, tmp_path / "plain.pt")
    missing = (
        "architecture is not given, and the files do not name it: name it by --architecture, one of cifar-resnet20"
    )
    with pytest.raises(RegistryError, match=f"{missing}.* or module:callable for a network of your own$"):
        add("other", [tmp_path / "plain.pt"], Addition(noise=Gaussian(0.25)), zoo=tmp_path / "zoo")


def test_a_noise_that_images_of_this_shape_cannot_have_is_refused(tmp_path: Path) -> None:
    properties = replace(PROPERTIES, sigma=None, noise=GaussianLinf(0.25, 100))
    with pytest.raises(DescriptionError, match=r"noise: dimension must be 16, the values of an image; got 100"):
        add("pair", [weights_file(tmp_path, 0)], properties, zoo=tmp_path / "zoo")


def test_a_noise_is_taken_from_the_records(tmp_path: Path) -> None:
    properties = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4))
    record = {"noise": {"name": "test-blur", "reach": 0.5, "norm": "l1"}}
    files = [weights_file(tmp_path, seed, **record) for seed in (0, 1)]
    with known_blur():
        assert add("pair", files, properties, zoo=tmp_path / "zoo").noise == Blur(0.5)
    with pytest.raises(DescriptionError, match=r"record of member-0\.safetensors: noise: must be one of 'gaussian'"):
        add("other", files, properties, zoo=tmp_path / "zoo")
    assert add("other", files, replace(properties, sigma=0.5), zoo=tmp_path / "zoo").noise == Gaussian(0.5)


def test_members_that_were_trained_without_noise_need_one(tmp_path: Path) -> None:
    properties = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4))
    files = [weights_file(tmp_path, seed, sigma=0.0) for seed in (0, 1)]
    with pytest.raises(RegistryError, match=r"trained without noise .*sigma 0.*by --sigma or --noise"):
        add("clean", files, properties, zoo=tmp_path / "zoo")
    with pytest.raises(DomainError, match="sigma must be positive and finite, got 0"):
        add("clean", files, replace(properties, sigma=0.0), zoo=tmp_path / "zoo")
    assert list((tmp_path / "zoo").iterdir()) == []
    assert add("clean", files, replace(properties, sigma=0.25), zoo=tmp_path / "zoo").noise == Gaussian(0.25)


def test_a_name_is_taken_once_and_a_file_must_be_there(zoo: Path, tmp_path: Path) -> None:
    with pytest.raises(EnsembleNameError, match="pair exists already"):
        add("pair", [tmp_path / "member-0.safetensors"], PROPERTIES, zoo=zoo)
    with pytest.raises(FileError, match=r"nothing\.pt: missing"):
        add("other", [tmp_path / "nothing.pt"], PROPERTIES, zoo=zoo)


def test_what_cannot_be_added_is_named_by_its_own_path_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "member.pt"
    file.write_bytes(scripted(tiny(0).eval()))
    properties = replace(PROPERTIES, architecture="torchscript", input_shape=(3, 4, 4))
    with pytest.raises(ProgramError) as refused:
        add("one", [file], properties, zoo=tmp_path / "zoo")
    assert str(refused.value).startswith(f"{file}: the program cannot take images of shape (2, 3, 4, 4): ")
    assert "\n" not in str(refused.value)
    assert ".adding-" not in str(refused.value)


def test_the_same_member_twice_is_refused(tmp_path: Path) -> None:
    first = weights_file(tmp_path, 0)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(first.read_bytes())
    with pytest.raises(MemberError, match="members 1 and 2 are the same: they have the digest"):
        add("pair", [first, copy], PROPERTIES, zoo=tmp_path / "zoo")


def test_non_tensor_state_is_refused(tmp_path: Path) -> None:
    torch.save({"weights": 3}, tmp_path / "a.pt")
    with pytest.raises(
        FileError, match=r"a\.pt: a dict is not a state dict of tensors; its entry 'weights' is of type int$"
    ):
        add("bad", [tmp_path / "a.pt"], PROPERTIES, zoo=tmp_path / "zoo")


@pytest.mark.parametrize(("entries", "named"), [(["model"], "'model'"), (["model", "ema"], "'model' or 'ema'")])
def test_the_state_dict_in_a_checkpoint_is_named(tmp_path: Path, entries: list[str], named: str) -> None:
    weights = {entry: {"weight": torch.ones(2, 2)} for entry in entries}
    torch.save({"epoch": 3, **weights, "optimizer": {"state": {}, "lr": 0.1}, "history": {}}, tmp_path / "a.pt")
    with pytest.raises(FileError, match=f"state dict of tensors; its entry {named} is one: save that alone$"):
        add("bad", [tmp_path / "a.pt"], PROPERTIES, zoo=tmp_path / "zoo")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a": torch.ones(3).to_sparse()}, "a state dict that safetensors cannot hold: RuntimeError"),
        ({"a": torch.ones(3, device="meta")}, "a state dict that safetensors cannot hold"),
        (
            {"a": torch.ones(3), "module.a": torch.ones(3)},
            "a state dict in which a name occurs both with and without module",
        ),
        ({"a": torch.ones(3, dtype=torch.complex64)}, "the weights must be real, and these are complex: a"),
    ],
)
def test_a_strange_state_dict_is_refused(tmp_path: Path, tensors: dict[str, torch.Tensor], message: str) -> None:
    torch.save(tensors, tmp_path / "a.pt")
    with pytest.raises(ModelError, match=rf"a\.(pt|safetensors): {message}"):
        add("bad", [tmp_path / "a.pt"], PROPERTIES, zoo=tmp_path / "zoo")


@pytest.mark.parametrize("dtype", ["F4", "F8_E8M0", "Q9"])
def test_a_dtype_that_torch_does_not_have_is_named(tmp_path: Path, dtype: str) -> None:
    size = 4 if dtype == "F4" else 8
    header = json.dumps({"a": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(FileError, match=rf"a\.safetensors: .*{dtype}"):
        add("bad", [tmp_path / "a.safetensors"], PROPERTIES, zoo=tmp_path / "zoo")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{bad", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
        ("[1]", "is of type list, not an object"),
        ('{"x": [null]}', r"does not fit into ensemble\.toml"),
        ('{"x": {"y": null}}', r"does not fit into ensemble\.toml"),
        ('{"x": "\\ud800"}', r"does not fit into ensemble\.toml"),
        ('{"architecture": "tiny", "sigma": 1%s}' % ("0" * 400), r"does not fit into ensemble\.toml"),
        ('{"architecture": "tiny", "sigma": "abc"}', "record of a.safetensors: sigma = 'abc' is not of type float"),
        (
            '{"architecture": ["tiny"], "sigma": 0.25}',
            r"record of a.safetensors: architecture = \['tiny'\] is not of type",
        ),
        (
            '{"architecture": "tiny", "sigma": 0.25, "method": 7}',
            "record of a.safetensors: method = 7 is not of type str",
        ),
    ],
)
def test_a_strange_training_record_is_refused(tmp_path: Path, record: str, message: str) -> None:
    safetensors.torch.save_file(tiny(0).state_dict(), tmp_path / "a.safetensors", {"record": record})
    properties = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4))
    with pytest.raises(RegistryError, match=message):
        add("bad", [tmp_path / "a.safetensors"], properties, zoo=tmp_path / "zoo")


def test_null_in_a_training_record_is_nothing(tmp_path: Path) -> None:
    add("one", [weights_file(tmp_path, 0, note=None)], PROPERTIES, zoo=tmp_path / "zoo")
    assert "note" not in describe("one", zoo=tmp_path / "zoo").members[0].training


def test_images_of_other_channels_than_the_network_normalises_are_refused(tmp_path: Path) -> None:
    safetensors.torch.save_file(build("cifar-resnet20", classes=3).state_dict(), tmp_path / "a.safetensors")
    properties = replace(PROPERTIES, architecture="cifar-resnet20", input_shape=(1, 32, 32))
    with pytest.raises(MemberError, match=r"a\.safetensors: .* normalises 3 channels, and the images have 1"):
        add("grey", [tmp_path / "a.safetensors"], properties, zoo=tmp_path / "zoo")


def test_half_precision_weights_become_float32(tmp_path: Path) -> None:
    halves = {name: t.half() if t.is_floating_point() else t for name, t in tiny(0).state_dict().items()}
    safetensors.torch.save_file(halves, tmp_path / "half.safetensors")
    ensemble = add("half", [tmp_path / "half.safetensors"], PROPERTIES, zoo=tmp_path / "zoo")
    assert next(ensemble.members[0].network.parameters()).dtype == torch.float32
