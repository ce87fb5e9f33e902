from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from models.addition import Addition, add
from models.architectures import ARCHITECTURES, build
from models.description import Ranking, parse, write
from models.errors import (
    DescriptionError,
    EnsembleNameError,
    FileError,
    MissingEnsembleError,
    ModelError,
    ProgramError,
    RegistryError,
)
from models.registry import ZOO, describe, load, names
from models.training.checkpoint import write_safetensors
from smoothcert.engine.errors import MemberError
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, GaussianLinf
from tests.support.blur import Blur, known_blur
from tests.support.networks import Tiny, tiny
from tests.support.programs import exported, poison, scripted

PROPERTIES = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4), architecture="tiny", sigma=0.25)


@pytest.fixture(autouse=True)
def _tiny_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "tiny", lambda classes, normalisation: Tiny(classes))


def weights_file(folder: Path, seed: int, classes: int = 3, **record: object) -> Path:
    path = folder / f"member-{seed}.safetensors"
    write_safetensors(path, tiny(seed, classes).state_dict(), {"seed": seed, "architecture": "tiny", **record})
    return path


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A zoo with one good ensemble of two members, `pair`."""
    add("pair", [weights_file(tmp_path, 0), weights_file(tmp_path, 1)], PROPERTIES, zoo=tmp_path / "zoo")
    return tmp_path / "zoo"


def edit(zoo: Path, old: str, new: str) -> None:
    path = zoo / "pair" / "ensemble.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_was_added_is_what_is_loaded(zoo: Path) -> None:
    edit(zoo, "sigma = 0.25", "sigma = 0.25\nlimits = [-20, 20.5]")
    ensemble = load("pair", zoo=zoo, voting="hard", consensus=1)
    assert ensemble.limits == (-20.0, 20.5)
    assert ensemble.digest == describe("pair", zoo=zoo).digest
    x = torch.rand(9, 1, 4, 4)
    with torch.no_grad():
        expected = torch.stack([tiny(seed).eval()(x) for seed in (0, 1)])
    assert torch.allclose(ensemble.logits(x), expected, atol=1e-5)
    assert (ensemble.voting, ensemble.consensus, ensemble.noise) == ("hard", 1, Gaussian(0.25))
    assert ensemble.classes == ("a", "b", "c")
    assert ensemble.digest == describe("pair", zoo=zoo).digest
    assert describe("pair", zoo=zoo).members[1].training["seed"] == 1
    assert names(zoo=zoo) == ["pair"]


def test_a_description_survives_being_written(zoo: Path) -> None:
    description = describe("pair", zoo=zoo)
    assert parse(write(description)) == description


def test_the_shipped_description_is_written_as_it_is() -> None:
    """Gaussian noise stays `sigma`, in the ensemble and in its ranking."""
    for name in names():
        text = (ZOO / name / "ensemble.toml").read_text()
        assert write(parse(text)) == text


def test_a_gaussian_may_be_written_out(zoo: Path) -> None:
    edit(zoo, "sigma = 0.25", "noise = { name = 'gaussian', sigma = 1 }")
    assert load("pair", zoo=zoo).noise == Gaussian(1.0)


def test_any_noise_goes_through_the_file(tmp_path: Path) -> None:
    with known_blur():
        properties = replace(PROPERTIES, sigma=None, noise=Blur(0.5))
        add("pair", [weights_file(tmp_path, 0)], properties, zoo=tmp_path / "zoo")
        description = describe("pair", zoo=tmp_path / "zoo")
        assert description.noise == Blur(0.5)
        ranking = Ranking("x", "y", "1::20", 3, 2, Blur(0.25), 0, {description.members[0].sha256: 0.5})
        ranked = description.ranked(ranking, {description.members[0].sha256: 1.0})
        assert parse(write(ranked)) == ranked
        assert load("pair", zoo=tmp_path / "zoo").noise == Blur(0.5)
    table = tomllib.loads((tmp_path / "zoo" / "pair" / "ensemble.toml").read_text())
    assert table["noise"] == {"name": "test-blur", "reach": 0.5, "norm": "l1"}
    assert "sigma" not in table
    with pytest.raises(DescriptionError, match=r"noise: must be one of 'gaussian'.*, got 'test-blur'"):
        load("pair", zoo=tmp_path / "zoo")


def test_a_ranking_states_one_noise(zoo: Path) -> None:
    edit(
        zoo,
        'voting = "soft"',
        'voting = "soft"\nranking = { data = "", data_digest = "", holdout = "", images = 1, draws = 1 }',
    )
    with pytest.raises(DescriptionError, match=r"ranking\.noise is missing: state sigma"):
        load("pair", zoo=zoo)
    edit(zoo, "draws = 1 }", "draws = 1, sigma = 0.0 }")
    with pytest.raises(DescriptionError, match=r"ranking\.sigma must be positive and finite, got 0\.0"):
        load("pair", zoo=zoo)


@pytest.mark.parametrize("name", ["", ".", "..", "../pair", "/etc", "a/b", "pair\n", ".hidden", "x" * 65, "pä"])
def test_a_name_is_no_path(zoo: Path, name: str) -> None:
    with pytest.raises(EnsembleNameError, match="is not a name"):
        load(name, zoo=zoo)
    with pytest.raises(EnsembleNameError, match="is not a name"):
        add(name, [], PROPERTIES, zoo=zoo)


def test_an_unknown_name_lists_the_known_ones(zoo: Path) -> None:
    with pytest.raises(MissingEnsembleError, match=r"no ensemble 'trio' in .*there are: pair"):
        load("trio", zoo=zoo)


def missing(folder: Path) -> None:
    (folder / "member-1.safetensors").unlink()


def extra(folder: Path) -> None:
    (folder / "more.txt").write_text("")


def tampered(folder: Path) -> None:
    path = folder / "member-1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def truncated(folder: Path) -> None:
    path = folder / "member-1.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def oversized(folder: Path) -> None:
    os.truncate(folder / "member-1.safetensors", 1 << 40)  # a sparse file: reading it would exhaust the memory


def linked(folder: Path) -> None:
    path = folder / "member-1.safetensors"
    path.rename(folder.parent.parent / "elsewhere")
    path.symlink_to(folder.parent.parent / "elsewhere")


def piped(folder: Path) -> None:
    path = folder / "member-1.safetensors"
    path.unlink()
    os.mkfifo(path)


def a_folder(folder: Path) -> None:
    (folder / "member-1.safetensors").unlink()
    (folder / "member-1.safetensors").mkdir()


def card_linked(folder: Path) -> None:
    (folder / "README.md").symlink_to("/etc/hostname")


def card_a_folder(folder: Path) -> None:
    (folder / "README.md").mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (missing, r"member-1\.safetensors: missing"),
        (extra, r"files that ensemble\.toml does not name: more\.txt"),
        (tampered, r"member-1\.safetensors: sha256 is [0-9a-f]{64}, but ensemble\.toml says [0-9a-f]{64}"),
        (truncated, r"member-1\.safetensors: \d+ bytes, but ensemble\.toml says \d+"),
        (oversized, r"member-1\.safetensors: 1099511627776 bytes, but ensemble\.toml says"),
        (linked, r"member-1\.safetensors: a link, which may lead out of the folder"),
        (piped, r"member-1\.safetensors: not a plain file"),
        (a_folder, r"member-1\.safetensors: not a plain file"),
        (card_linked, r"README\.md: not a plain file"),
        (card_a_folder, r"README\.md: not a plain file"),
    ],
)
def test_a_damaged_folder_is_refused_by_the_file(zoo: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(zoo / "pair")
    for use in (load, describe):
        with pytest.raises(FileError, match=message):
            use("pair", zoo=zoo)


def test_a_linked_folder_or_description_is_refused(zoo: Path) -> None:
    (zoo / "alias").symlink_to(zoo / "pair")
    with pytest.raises(FileError, match="alias is a link"):
        load("alias", zoo=zoo)
    (zoo / "pair" / "ensemble.toml").rename(zoo / "elsewhere.toml")
    (zoo / "pair" / "ensemble.toml").symlink_to(zoo / "elsewhere.toml")
    with pytest.raises(FileError, match=r"ensemble\.toml: a link"):
        load("pair", zoo=zoo)


@pytest.mark.parametrize("file", ["../member-1.safetensors", "/etc/passwd", "a/b.safetensors", "..", "x.pkl", ".x.pt"])
def test_a_member_file_is_a_plain_name(zoo: Path, file: str) -> None:
    edit(zoo, '"member-1.safetensors"', f'"{file}"')
    with pytest.raises(
        DescriptionError, match=f"ensemble.toml: member file {re.escape(repr(file))} is not a plain name"
    ):
        load("pair", zoo=zoo)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sigma = 0.25", "sigma = 0.25\ncolour = 1", "unknown keys: colour"),
        ("bytes = ", "size = 1\nbytes = ", r"unknown keys: members\[0\]\.size"),
        ("sigma = 0.25\n", "", "noise is missing: state sigma for Gaussian noise, or else a table noise"),
        ("sigma = 0.25", 'sigma = "big"', "sigma = 'big' is not of type float or int"),
        ("sigma = 0.25", "sigma = 0", "sigma must be positive and finite, got 0"),
        ("sigma = 0.25", "sigma = 0.25\nnoise = { name = 'gaussian', sigma = 0.25 }", "sigma and noise are both given"),
        ("sigma = 0.25", "noise = 'gaussian'", "noise = 'gaussian' is not of type dict"),
        ("sigma = 0.25", "noise = { name = 'loud' }", "noise: must be one of 'gaussian'.*, got 'loud'"),
        ("sigma = 0.25", "noise = { name = [] }", "noise: "),
        ("sigma = 0.25", "noise = { sigma = 0.25 }", "noise: must have the field 'name'"),
        ("sigma = 0.25", "noise = { name = 'gaussian' }", r"noise: gaussian\.sigma: is missing"),
        (
            "sigma = 0.25",
            "noise = { name = 'gaussian', sigma = 0 }",
            r"noise: gaussian\.sigma: must be more than 0, got 0",
        ),
        (
            "sigma = 0.25",
            "noise = { name = 'gaussian', sigma = 1, tau = 1 }",
            r"noise: gaussian\.tau: there is no such field, got 1",
        ),
        ("sigma = 0.25", "sigma = nan", "sigma must be positive and finite, got nan"),
        ("sigma = 0.25", "sigma = -1.0", "sigma must be positive and finite, got -1.0"),
        ("sigma = 0.25", "sigma = 0.25\nconsensus = 3", r"consensus must be from 1 to 2, the number of members, got 3"),
        ("sigma = 0.25", "sigma = 0.25\nconsensus = 0", r"consensus must be from 1 to 2, the number of members, got 0"),
        ("sigma = 0.25", "sigma = 0.25\nconsensus = true", "consensus = True is not of type int"),
        ("sigma = 0.25", "sigma = 0.25\nlimits = [2, 1]", r"must be \[low, high\] .* got \[2\.0, 1\.0\]"),
        ("sigma = 0.25", "sigma = 0.25\nlimits = [1]", "limits = .* is not a list of two numbers"),
        ('voting = "soft"', 'voting = "loud"', "voting must be one of .*'loud'"),
        ('voting = "soft"', 'voting = "weighted"', "weighted voting needs weights"),
        ('["a", "b", "c"]', '["a", "b", "a"]', "two or more different names"),
        ("[1, 4, 4]", "[1, 4]", r"input_shape \[1, 4\]"),
        ('evaluation = "0::20"', 'evaluation = "some"', "selection 'some'"),
        ('voting = "soft"', 'voting = "soft"\nweights = { feed = 1.0 }', r"weights for other members.*feed"),
        ('voting = "soft"', "normalisation = { mean = [0.5, 0.5], std = [1, 1] }", "2 means for 1 channels"),
        ('voting = "soft"', "normalisation = { mean = [0.5], std = [0] }", "every std positive"),
        ("[[members]]", "[[members", "not TOML"),
        ("bytes = ", "bytes = " + "9" * 5000, "not TOML: .*5004 digits"),
        ("sigma = 0.25", "sigma = 1" + "0" * 400, "not TOML: an integer of 1329 bits"),
        ("sigma = 0.25", "sigma = 0x" + "f" * 5000, "not TOML: an integer of 20000 bits"),
        ("sigma = 0.25", "sigma = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("sigma = 0.25", "sigma = { " + "a." * 5000 + "a = 1 }", "nested too deeply"),
        ("[1, 4, 4]", "[1, 4000000, 4000000]", r"input_shape \[1, 4000000, 4000000\] has more than"),
        ("[1, 4, 4]", f"[1, {2**70}, 4]", "not TOML: an integer of 71 bits"),
        ('evaluation = "0::20"', 'evaluation = "0::00"', "selection '0::00' has step 0"),
        ('sha256 = "', 'sha256 = "x', "is not 64 hexadecimal digits"),
    ],
)
def test_a_bad_description_is_refused_by_what_it_says(zoo: Path, old: str, new: str, message: str) -> None:
    edit(zoo, old, new)
    with pytest.raises(DescriptionError, match=rf"(?s)ensemble\.toml: .*{message}"):
        load("pair", zoo=zoo)


def test_a_huge_description_is_not_read(zoo: Path) -> None:
    os.truncate(zoo / "pair" / "ensemble.toml", 1 << 40)
    with pytest.raises(FileError, match="1099511627776 bytes, more than"):
        load("pair", zoo=zoo)


def test_the_digest_sees_what_the_file_says_of_the_members(zoo: Path) -> None:
    digest = describe("pair", zoo=zoo).digest
    edit(zoo, "sigma = 0.25", "sigma = 0.5\nconsensus = 2")
    assert describe("pair", zoo=zoo).digest == digest
    edit(zoo, '["a", "b", "c"]', '["a", "b", "d"]')
    assert describe("pair", zoo=zoo).digest != digest


def test_an_ensemble_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    files = [weights_file(tmp_path, 0), weights_file(tmp_path, 1, classes=4)]
    with pytest.raises(ModelError, match=r"(?s)member-1\.safetensors: .*fc\.weight"):
        add("pair", files, PROPERTIES, zoo=tmp_path / "zoo")
    assert list((tmp_path / "zoo").iterdir()) == []


def test_programs_whose_classes_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.pt").write_bytes(scripted(tiny(0).eval()))
    (tmp_path / "two.pt").write_bytes(scripted(tiny(1, classes=4).eval()))
    with pytest.raises(MemberError, match=r"two\.pt: .* logits of shape \(256, 4\), not \(256, 3\)"):
        add("pair", [tmp_path / "one.pt", tmp_path / "two.pt"], PROPERTIES, zoo=tmp_path / "zoo")


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
    with pytest.raises(
        RegistryError, match="architecture is not given, and the files do not name it: name it by --arch"
    ):
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
    with pytest.raises(MemberError, match="the same member twice: members 1 and 2 have the digest"):
        add("pair", [first, copy], PROPERTIES, zoo=tmp_path / "zoo")


def test_non_tensor_state_is_refused(tmp_path: Path) -> None:
    torch.save({"weights": 3}, tmp_path / "a.pt")
    with pytest.raises(FileError, match=r"a\.pt: a dict is not a state dict of tensors"):
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
