"""The zoo: ensembles are read as they were written, and damage is refused by its name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.addition import add
from models.description import Ranking, parse, write
from models.errors import (
    DescriptionError,
    EnsembleNameError,
    FileError,
    MissingEnsembleError,
)
from models.registry import ZOO, describe, load, names
from smoothcert.noise import Gaussian
from tests.support.blur import Blur, known_blur
from tests.support.networks import tiny
from tests.support.pair import PROPERTIES, know_tiny, pair_zoo, weights_file


@pytest.fixture(autouse=True)
def _tiny_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    know_tiny(monkeypatch)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    return pair_zoo(tmp_path)


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
    os.truncate(folder / "member-1.safetensors", 1 << 40)  # reading this sparse file would exhaust the memory


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
        ('voting = "soft"', 'voting = "soft"\nweights = { feed = 1.0 }', r"weights must be those of the members.*feed"),
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
