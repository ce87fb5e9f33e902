"""`python -m benchmarks accuracy`: members and the best of them under one draw of noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from benchmarks.paper import accuracy
from models.data import Images, load_images
from models.registry import ZOO
from smoothcert.engine.sampling import NoisyImage
from tests.support import engines
from tests.support.benchmarked import Benchmark
from tests.support.evaluated import NOISE


def random_images(n: int) -> Images:
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (n, *engines.SHAPE), dtype=np.uint8)
    return Images("cifar10-test", pixels, rng.integers(0, 4, n), ("a", "b", "c", "d"))


def test_accuracy_is_that_of_the_members_and_of_the_best_under_one_draw() -> None:
    """The networks compute it here one image after the other, on noise drawn by hand."""
    three, images = engines.ensemble(3), random_images(70).pick([3, 40, *range(41, 70)])
    found = accuracy.right_answers(three, images, NOISE, seed="s", batch=8)
    stream = NoisyImage(NOISE, torch.zeros(engines.SHAPE), "s", 0)
    right = np.zeros(5, int)
    for pixels, label, index in zip(images.pixels, images.labels, images.indices.tolist(), strict=True):
        x = torch.from_numpy(pixels) / 255 + 0.25 * stream.block(index // 32)[index % 32]
        with torch.no_grad():
            logits = torch.cat([member.network(x.unsqueeze(0)) for member in three.members])
        answers = [*logits.argmax(1), logits[:2].sum(0).argmax(), logits.sum(0).argmax()]
        right += np.array([int(answer) == label for answer in answers])
    assert list(found.values()) == right.tolist()
    assert len(set(right.tolist())) > 1
    assert list(found)[3:] == ["the 2 best", "the 3 best"]


@pytest.fixture
def hundred(monkeypatch: pytest.MonkeyPatch) -> Images:
    """A hundred test images in place of CIFAR-10's."""
    shipped = load_images(ZOO / "cifar10-test-100.json")
    images = Images(shipped.name, shipped.pixels, shipped.labels, shipped.classes)
    monkeypatch.setattr(accuracy, "load_images", lambda folder: images)
    return images


@pytest.mark.usefixtures("hundred")
def test_accuracy_leaves_out_the_hold_out(ranked: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    arguments = ("accuracy", "--zoo", ranked, "--ensemble", "two", "--data", "/data/cifar10")
    code, out = benchmark(*arguments, "--json", "--write", tmp_path)
    assert code == 0
    table = json.loads(out)
    assert "98 images of cifar10-test (all but the hold-out)" in table["notes"][0]
    assert [row["classifier"].split(",")[0] for row in table["rows"]] == ["member 1", "member 2", "the 2 best"]
    for row in table["rows"]:
        exact = binomtest(round(row["accuracy"] * 98), 98).proportion_ci(0.95)
        assert (row["95 % from"], row["to"]) == pytest.approx((exact.low, exact.high), abs=1e-4)
    assert "`python -m benchmarks accuracy --zoo PATH/TO/zoo" in (tmp_path / "accuracy.md").read_text()
    assert benchmark(*arguments, "--check")[0] == 1  # these networks were never trained
    refused, _ = benchmark(*arguments, "--images", "::4")
    assert "2 of these 25 images of cifar10-test are in the hold-out '20,60'" in str(refused)


@pytest.mark.parametrize(
    ("more", "seen"), [(["--images", "900:"], "'900:' chooses none of 100"), (["--voting", "loud"], "'loud'")]
)
@pytest.mark.usefixtures("hundred")
def test_accuracy_names_bad_input(zoo: Path, more: list[str], seen: str, benchmark: Benchmark) -> None:
    code, _ = benchmark("accuracy", "--zoo", zoo, "--ensemble", "two", "--data", "x", *more)
    assert str(code).startswith("error: ")
    assert seen in str(code)
