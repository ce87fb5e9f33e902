"""The data set that a folder holds, and what MNIST's two forms give."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from models.architectures import build
from models.data import DATA_SETS, DataError, data_set, load_images
from models.data.mnist import Mnist


def digits(n: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(n)
    return rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), (np.arange(n) % 10).astype(np.uint8)


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    for name, n in (("train", 30), ("test", 20)):
        images, labels = digits(n)
        np.savez_compressed(tmp_path / f"mnist_{name}.npz", images=images, labels=labels)
    return tmp_path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """The form of torchvision: files of numbers with a header of magic number and sizes."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, n in (("train", 30), ("t10k", 20)):
        for kind, values in zip(("images-idx3", "labels-idx1"), digits(n), strict=True):
            header = np.array([2048 + values.ndim, *values.shape], ">i4").tobytes()
            (folder / f"{name}-{kind}-ubyte").write_bytes(header + values.tobytes())
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(b""))
    return tmp_path


@pytest.mark.parametrize("form", ["npz", "raw"])
def test_both_forms_of_mnist_give_the_same_images(form: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(form)
    found = data_set(folder)
    assert found.name == "mnist"
    for train, name, n in ((True, "mnist-train", 30), (False, "mnist-test", 20)):
        images, (pixels, labels) = found.load(folder, train=train), digits(n)
        assert images.name == name
        assert images.shape == (1, 28, 28)
        assert images.classes == tuple("0123456789")
        assert np.array_equal(images.pixels[:, 0], pixels)
        assert np.array_equal(images.labels, labels)
    assert len(load_images(folder)) == 20


def test_digits_are_neither_mirrored_nor_cropped() -> None:
    pixels = torch.from_numpy(digits(8)[0]).unsqueeze(1)
    assert torch.equal(Mnist().augment(pixels), pixels.float() / 255)


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "mnist_test.npz: "),
        (lambda path: np.savez(path, images=digits(3)[0]), "mnist_test.npz: KeyError"),
        (lambda path: np.savez(path, images=digits(3)[0] / 255, labels=[0, 1, 2]), "must be uint8 .* got float64"),
        (lambda path: np.savez(path, images=digits(3)[0][:, :20], labels=[0, 1, 2]), r"got uint8 \(3, 20, 28\)"),
        (lambda path: np.savez(path, images=digits(3)[0], labels=[0, 1, 10]), r"labels 0\.\.10 outside 0\.\.9"),
    ],
)
def test_damaged_digits_are_named(npz: Path, damage: object, seen: str) -> None:
    assert callable(damage)
    damage(npz / "mnist_test.npz")
    with pytest.raises(DataError, match=seen):
        load_images(npz)


def test_a_file_of_torchvision_that_is_missing_is_named(raw: Path) -> None:
    (raw / "MNIST" / "raw" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=f"{raw}: Dataset not found"):
        load_images(raw)


def test_a_folder_without_a_data_set_is_told_what_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        data_set(tmp_path)
    assert all(f"{each.name}: {each.files}" in str(error.value) for each in DATA_SETS)


def test_every_data_set_has_a_network_and_a_hold_out_that_is_not_for_evaluation() -> None:
    for each in DATA_SETS:
        assert build(each.architecture, classes=10)
        assert not [place for place in range(0, 1000, 20) if place in each.holdout]
