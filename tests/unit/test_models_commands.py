"""`python -m models`, on an artificial CIFAR-10 in the form of sheets."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from models.data import DataError, load_images
from models.registry import load
from models.resnet import resnet20
from models.training.checkpoint import write_safetensors
from tests.support.blur import known_blur
from tests.support.disk import full_disk
from tests.support.models_command import models

ROOT = Path(__file__).parents[2]
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 test images of one colour each, as a lossless sheet."""
    folder = tmp_path_factory.mktemp("cifar10")
    labels = np.arange(10_000) % 10
    colours = np.stack([labels * 25, np.arange(10_000) % 256, np.arange(10_000) // 256], axis=1).astype(np.uint8)
    sheet = colours.reshape(100, 1, 100, 1, 3).repeat(32, axis=1).repeat(32, axis=3).reshape(3200, 3200, 3)
    Image.fromarray(sheet).save(folder / "test_batch.webp", lossless=True, quality=0, method=0)
    np.savez(folder / "labels.npz", test=labels.astype(np.uint8), train=labels.repeat(5).astype(np.uint8))
    pixels = np.broadcast_to(colours[:, :, None], (10_000, 3, 1024)).reshape(10_000, -1)
    rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
    digests = {"test_batch.bin": hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()}
    manifest = {"sha256_of_official_binary_files": digests, "classes": CLASSES}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo with one ensemble of three members, made by `models add` from safetensors and a state dict."""
    tmp_path = tmp_path_factory.mktemp("made")
    files = []
    for seed in range(3):
        torch.manual_seed(seed)
        files.append(tmp_path / f"member-{seed}.safetensors")
        save_file(resnet20().state_dict(), files[-1])
    torch.save(resnet20().state_dict(), files[2].with_suffix(".pth"))
    done = models(
        "add", "three", files[0], files[1], files[2].with_suffix(".pth"), "--architecture", "cifar-resnet20",
        "--sigma", 0.25, "--zoo", tmp_path / "zoo",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "three: 3 members, digest" in done.stdout
    return tmp_path / "zoo"


@pytest.fixture
def zoo(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "zoo"))


def test_sheets_are_read_in_their_order(data: Path) -> None:
    images = load_images(data)
    assert images.pixels.shape == (10_000, 3, 32, 32)
    assert images.classes == tuple(CLASSES)
    assert (images.pixels[:, 0, 5, 5] == images.labels * 25).all()
    assert (images.pixels[:, 1, 31, 0] == np.arange(10_000) % 256).all()


def test_a_sheet_that_was_altered_is_refused(data: Path, tmp_path: Path) -> None:
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    labels = np.load(data / "labels.npz")
    np.savez(tmp_path / "labels.npz", test=(labels["test"] + 1) % 10, train=labels["train"])
    with pytest.raises(DataError, match=r"test_batch\.webp: pixels and labels have sha256"):
        load_images(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_sheet_is_named(data: Path, tmp_path: Path, damage: str) -> None:
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    sheet = tmp_path / "test_batch.webp"
    sheet.write_bytes(sheet.read_bytes()[:1000]) if damage == "truncated" else sheet.unlink()
    with pytest.raises(DataError, match=str(tmp_path)):
        load_images(tmp_path)


def test_show_lists_the_ensembles_and_their_members(zoo: Path) -> None:
    every, one = models("show", "--zoo", zoo).stdout, models("show", "three", "--zoo", zoo).stdout
    assert "three" in every
    assert "noise gaussian, sigma 0.25, method unknown" in every
    assert "member-2.safetensors" in one
    assert "noise gaussian, sigma 0.25" in " ".join(one.split())


def test_a_bad_ensemble_is_named_beside_the_good_ones(zoo: Path) -> None:
    (zoo / "bad").mkdir()
    (zoo / "bad" / "ensemble.toml").write_text("sigma = 1")
    done = models("show", "--zoo", zoo)
    assert done.returncode == 1
    assert "three" in done.stdout
    assert f"error: {zoo}/bad/ensemble.toml: members is missing" in done.stderr


@pytest.mark.parametrize("command", ["train", "add", "show", "rank", "diagnose", "study"])
def test_a_flag_is_shown_without_a_type(command: str) -> None:
    shown = models(command, "--help").stdout
    assert re.search(r"--help +Show this message", shown)
    assert "bool" not in shown


@pytest.mark.parametrize("classes", ["99999999999", "100001", "9" * 5000])
def test_add_takes_a_sensible_number_of_classes(tmp_path: Path, classes: str) -> None:
    done = models("add", "x", "y.pt", "--classes", classes, "--zoo", tmp_path)
    assert done.returncode == 2
    assert "at most 100000" in done.stderr


def test_add_reads_the_names_of_classes_from_a_file(tmp_path: Path) -> None:
    names = [f"class, {number}" for number in range(10)]
    (tmp_path / "classes.txt").write_text("\n".join(names) + "\n\n")
    save_file(resnet20().state_dict(), tmp_path / "member.safetensors")
    question = ("--architecture", "cifar-resnet20", "--sigma", 0.25, "--zoo", tmp_path / "zoo")
    done = models("add", "x", tmp_path / "member.safetensors", "--classes", tmp_path / "classes.txt", *question)
    assert done.returncode == 0, done.stderr
    assert list(load("x", zoo=tmp_path / "zoo").classes) == names
    (tmp_path / "classes.txt").write_text("one\n")
    done = models("add", "y", tmp_path / "member.safetensors", "--classes", tmp_path / "classes.txt", *question)
    assert done.returncode == 2
    assert "the name of a class in each line" in " ".join(done.stderr.replace("│", " ").split())
    assert models("add", "y", "y.pt", "--classes", ",".join("abc" * 999), *question).returncode == 1
    done = models("add", "y", "y.pt", "--classes", "missing.txt", *question)
    assert done.returncode == 2
    assert "'missing.txt': there is no such file" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("classes", "named"), [("cat,dog", 2), ("11", 11)])
def test_add_says_how_many_classes_the_member_has(tmp_path: Path, classes: str, named: int) -> None:
    member = tmp_path / "member.safetensors"
    save_file(resnet20().state_dict(), member)
    question = ("--architecture", "cifar-resnet20", "--sigma", 0.25, "--zoo", tmp_path / "zoo")
    done = models("add", "x", member, "--classes", classes, *question)
    assert done.returncode == 1
    assert done.stderr == f"error: {member}: the network has 10 outputs, and there are {named} class names"


def test_rank_orders_the_members_and_fits_their_weights(zoo: Path, data: Path) -> None:
    done = models("rank", "three", "--data", data, "--holdout", "1::100", "--draws", 1, "--zoo", zoo)
    assert done.returncode == 0, done.stderr
    table = tomllib.loads((zoo / "three" / "ensemble.toml").read_text())
    accuracies = [table["ranking"]["accuracies"][member["sha256"]] for member in table["members"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert table["ranking"]["holdout"] == "1::100"
    assert table["ranking"]["images"] == 100
    assert table["ranking"]["sigma"] == 0.25
    assert set(table["weights"]) == {member["sha256"] for member in table["members"]}
    assert load("three", zoo=zoo, voting="weighted").voting == "weighted"


def test_rank_refuses_the_evaluation_images(zoo: Path, data: Path) -> None:
    before = (zoo / "three" / "ensemble.toml").read_bytes()
    done = models("rank", "three", "--data", data, "--holdout", "0::100", "--zoo", zoo)
    assert done.returncode == 1
    assert "overlaps the evaluation images '0::20' in 100 places" in done.stderr
    assert (zoo / "three" / "ensemble.toml").read_bytes() == before


def test_a_card_may_lie_beside_the_members_and_nothing_else(zoo: Path) -> None:
    (zoo / "three" / "README.md").write_text("# Three")
    assert models("show", "three", "--zoo", zoo).returncode == 0
    (zoo / "three" / "notes.txt").write_text("x")
    done = models("show", "three", "--zoo", zoo)
    assert done.returncode == 1
    assert "notes.txt" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["show", "unknown"], "no ensemble 'unknown'"),
        (["show", "../three"], "is not a name"),
        (["add", "x", "nowhere.safetensors", "--architecture", "cifar-resnet20"], "nowhere.safetensors"),
        (["rank", "three", "--data", "/nowhere"], "/nowhere"),
        (["rank", "three", "--data", "/nowhere", "--sigma", "0"], "sigma must be positive and finite, got 0.0"),
        (["rank", "three", "--data", "/nowhere", "--noise", "loud"], "noise 'loud': must be one of 'gaussian'"),
        (["add", "x", "y.pt", "--sigma", "1", "--noise", "gaussian:sigma=2"], "the noise is gaussian, sigma 2"),
        (["add", "x", "y.pt", "--noise", "gaussian"], "noise 'gaussian': gaussian.sigma: is missing"),
        (["add", "x", "y.pt", "--mean", "0.5", "--std", "0"], "every std positive"),
    ],
)
def test_bad_input_is_one_sentence(zoo: Path, arguments: list[str], seen: str) -> None:
    done = models(*arguments, "--zoo", zoo)
    assert done.returncode == 1
    assert seen in done.stderr


def test_a_user_sees_the_sentence_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "models", "show", "unknown", "--zoo", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 1
    assert done.stderr == f"error: no ensemble 'unknown' in {tmp_path}; there are: none\n"


class Thread(threading.Thread):
    """A member in a thread of this process, since a new process would import torch again."""

    exitcode = 0

    def run(self) -> None:
        try:
            super().run()
        except SystemExit as end:
            self.exitcode = int(end.code or 0)

    def terminate(self) -> None:
        self.join()


class Threads:
    """A stand-in for a multiprocessing context."""

    Process = Thread
    Queue = queue.Queue


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    threads = torch.get_num_threads()
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: Threads)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    """All sheets of a CIFAR-10, without digests of the training sheets in the manifest."""
    copied = Path(shutil.copytree(data, tmp_path / "cifar10"))
    for i in range(1, 6):
        shutil.copy(data / "test_batch.webp", copied / f"data_batch_{i}.webp")
    return copied


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def labels(folder: Path, **changed: Any) -> None:
    found = dict(np.load(folder / "labels.npz"))
    np.savez(folder / "labels.npz", **{**found, **changed})


DAMAGES = {
    "no sheet": (lambda folder: (folder / "data_batch_3.webp").unlink(), "data_batch_3.webp: FileNotFoundError"),
    "half a sheet": (lambda folder: cut(folder / "data_batch_3.webp"), "data_batch_3.webp: "),
    "half the labels": (lambda folder: cut(folder / "labels.npz"), "labels.npz: BadZipFile"),
    "no labels": (lambda folder: (folder / "labels.npz").write_bytes(b""), "labels.npz: EOFError"),
    "half a manifest": (lambda folder: (folder / "MANIFEST.json").write_text('{"classes": ['), "MANIFEST.json: JSON"),
    "labels out of range": (
        lambda folder: labels(folder, train=np.full(50_000, 200, np.uint8)),
        "cifar10-train: labels 200..200 outside 0..9",
    ),
    "too few labels": (lambda folder: labels(folder, train=np.zeros(7, np.uint8)), "50000 images but 7 labels"),
    "other pixels": (lambda folder: None, "data_batch_1.webp: pixels and labels have sha256"),
}


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("damage", DAMAGES)
def test_train_names_what_is_wrong_with_its_data(folder: Path, tmp_path: Path, damage: str) -> None:
    break_it, seen = DAMAGES[damage]
    break_it(folder)
    done = models("train", "--data", folder, "--out", tmp_path / "out", "--seeds", 3)
    assert done.returncode == 1
    assert done.stderr.startswith("error: member 3: ")
    assert seen in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_train_names_a_folder_without_data_before_it_starts(tmp_path: Path) -> None:
    done = models("train", "--data", "/nowhere", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("error: /nowhere: holds none of the data sets that are known by their files (cifar10")


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (
            ["--method", "hope"],
            "--method must be one of gaussian, augmentation, consistency, smoothadv, macer, denoiser-mse, "
            "denoiser-stability, denoiser-classification; got 'hope'",
        ),
        (
            ["--preset", "long"],
            "--preset must be one of paper, one-cycle, mnist, mnist-one-cycle, denoiser-paper, denoiser, "
            "denoiser-tuning; got 'long'",
        ),
        (["--seeds", "one"], "--seeds must be like 0,1,2, got 'one'"),
        (["--seeds", "1,2,1"], "--seeds '1,2,1' has a seed twice"),
        (["--precision", "float16"], "--precision must be one of float32, bfloat16; got 'float16'"),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--sigma", "-0.25"], "--sigma must be zero or more and finite, got -0.25"),
        (["--sigma", "nan"], "--sigma must be zero or more and finite, got nan"),
        (["--noise", "gaussian:sigma=-1"], "gaussian.sigma: "),
        (["--noise", "test-blur:reach=0.5"], "the method gaussian is defined for Gaussian noise alone, got test-blur"),
        (["--parameter", "copies"], "--parameter must be a name and a number, like copies=4; got 'copies'"),
        (["--parameter", "copies=nan"], "--parameter must be a name and a number, like copies=4; got 'copies=nan'"),
        (["--parameter", "copies=2", "--parameter", "copies=3"], "--parameter copies is given twice"),
        (["--method", "macer", "--parameter", "steps=2"], "'steps' is not a parameter of the method macer"),
        (["--sigma", "0", "--ensemble", "clean"], "--sigma 0 trains without noise: leave --ensemble out"),
        (["--ensemble", "three"], "three exists already"),
        (["--ensemble", "../three"], "'../three' is not a name"),
        (["--out", __file__], f"cannot write {__file__}: "),
    ],
)
def test_train_refuses_bad_options_before_it_starts(zoo: Path, tmp_path: Path, arguments: list[str], seen: str) -> None:
    with known_blur():
        done = models("train", "--data", "/nowhere", "--out", tmp_path / "out", "--zoo", zoo, *arguments)
    assert done.returncode == 1
    assert seen in done.stderr
    assert "member 0" not in done.stderr


def trained(folder: Path, seed: int) -> Path:
    """Weights with a record, as `train` writes them."""
    torch.manual_seed(seed)
    folder.mkdir(exist_ok=True)
    record = {
        "architecture": "cifar-resnet20", "method": "gaussian", "sigma": 0.25, "preset": "one-cycle", "seed": seed,
        "epochs": 16, "seconds": 5800.5,
    }  # fmt: skip
    write_safetensors(folder / f"gaussian-{seed}.safetensors", resnet20().state_dict(), record)
    return folder / f"gaussian-{seed}.safetensors"


def test_train_makes_an_ensemble_of_finished_members(data: Path, tmp_path: Path) -> None:
    files = [trained(tmp_path / "out", seed) for seed in (4, 7)]
    command = ("train", "--data", data, "--out", tmp_path / "out", "--seeds", "4,7", "--preset", "one-cycle")
    done = models(*command, "--ensemble", "both", "--zoo", tmp_path / "zoo")
    assert done.returncode == 0, done.stderr
    table = tomllib.loads((tmp_path / "zoo" / "both" / "ensemble.toml").read_text())
    assert [member["file"] for member in table["members"]] == [file.name for file in files]
    assert [member["training"]["seed"] for member in table["members"]] == [4, 7]
    assert (table["sigma"], table["method"], table["classes"]) == (0.25, "gaussian", CLASSES)
    assert load("both", zoo=tmp_path / "zoo").members[1].digest == hashlib.sha256(files[1].read_bytes()).hexdigest()


def test_add_takes_any_noise(tmp_path: Path) -> None:
    file = trained(tmp_path / "out", 4)
    with known_blur():
        done = models("add", "one", file, "--noise", "test-blur:reach=0.5", "--zoo", tmp_path / "zoo")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("one: 1 member, digest ")
        assert "noise test-blur, reach 0.5" in models("show", "--zoo", tmp_path / "zoo").stdout
    table = tomllib.loads((tmp_path / "zoo" / "one" / "ensemble.toml").read_text())
    assert table["noise"] == {"name": "test-blur", "reach": 0.5, "norm": "l1"}
    assert "sigma" not in table


def test_sigma_may_have_a_decimal_comma(tmp_path: Path) -> None:
    file = trained(tmp_path / "out", 4)
    done = models("add", "one", file, "--sigma", "0,5", "--zoo", tmp_path / "zoo")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "zoo" / "one" / "ensemble.toml").read_text())["sigma"] == 0.5
    done = models("add", "two", file, "--sigma", "wide", "--zoo", tmp_path / "zoo")
    assert (done.returncode, "'wide' is not a number" in done.stderr) == (2, True)


def test_a_full_disk_leaves_no_half_of_an_ensemble(zoo: Path, data: Path, tmp_path: Path) -> None:
    file = trained(tmp_path / "out", 4)
    with full_disk():
        done = models("add", "one", file, "--zoo", zoo)
    assert done.returncode == 1
    assert f"error: cannot write {zoo / 'one'}: " in done.stderr
    assert "File too large" in done.stderr
    assert [entry.name for entry in zoo.iterdir()] == ["three"]
    assert models("add", "one", file, "--zoo", zoo).returncode == 0


def test_without_resume_nothing_that_is_there_is_overwritten(data: Path, tmp_path: Path) -> None:
    (tmp_path / "gaussian-1.checkpoint").write_bytes(b"hours of training")
    done = models("train", "--data", data, "--out", tmp_path, "--seeds", "0,1", "--no-resume")
    assert done.returncode == 1
    assert "gaussian-1.checkpoint exists: go on from it with --resume" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["gaussian-1.checkpoint"]
