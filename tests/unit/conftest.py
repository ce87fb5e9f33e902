"""Fixtures that several files use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks import __main__ as front
from models import addition
from models.data import load_images, write_sheet
from models.description import Ranking
from models.registry import ZOO, describe, rewrite
from models.resnet import resnet20
from models.training.checkpoint import write_safetensors
from smoothcert.engine.smoothed import Smoothed
from tests.support import evaluated
from tests.support import smoothed as small
from tests.support.benchmarked import Benchmark
from tests.support.evaluated import CIFAR10
from tests.support.programs import scripted


@pytest.fixture
def smoothed() -> Iterator[Smoothed]:
    """A small model of four classes, whose thread ends with the test."""
    with Smoothed(small.patches(), small.NOISE) as made:
        yield made


# --- `python -m benchmarks`


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble of two random networks of one layer, and eight of the shipped images."""
    folder = tmp_path_factory.mktemp("evaluate")
    files = []
    for seed in range(2):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 10))
        files.append(folder / f"member-{seed}.pt")
        files[-1].write_bytes(scripted(network.eval(), (3, 32, 32)))
    return two_and_eight(folder, files, addition.Addition(classes=CIFAR10, noise=evaluated.NOISE))


@pytest.fixture(scope="session")
def slow_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with ResNet20, for runs that are killed in the middle."""
    folder = tmp_path_factory.mktemp("slow")
    files = []
    for seed in range(2):
        torch.manual_seed(seed)
        files.append(folder / f"member-{seed}.safetensors")
        write_safetensors(files[-1], resnet20().state_dict(), {"architecture": "cifar-resnet20", "sigma": 0.25})
    return two_and_eight(folder, files, addition.Addition(classes=CIFAR10))


def two_and_eight(folder: Path, files: list[Path], properties: addition.Addition) -> Path:
    addition.add("two", files, properties, zoo=folder / "zoo")
    write_sheet(load_images(ZOO / "cifar10-test-100.json").pick(slice(0, 8)), folder / "zoo" / "eight.json")
    return folder / "zoo"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Benchmark:
    """Runs a benchmark in this process, which has imported torch: its exit code or last words, and its output."""

    def run_it(*arguments: object) -> tuple[int | str, str]:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
        try:
            code: Any = front.main()
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr().out

    return run_it


@pytest.fixture
def ranked(zoo: Path, tmp_path: Path) -> Path:
    """The zoo with its ensemble ranked on images 20 and 60, which are among the eight."""
    for file in zoo.rglob("*.*"):
        (tmp_path / "zoo" / file.relative_to(zoo)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "zoo" / file.relative_to(zoo)).write_bytes(file.read_bytes())
    description = describe("two", zoo=zoo)
    accuracies = {member.sha256: 0.5 for member in description.members}
    ranking = Ranking("cifar10-test", "0" * 64, "20,60", 2, 1, evaluated.NOISE, 0, accuracies)
    rewrite("two", replace(description, evaluation="0,40", ranking=ranking), zoo=tmp_path / "zoo")
    return tmp_path / "zoo"
