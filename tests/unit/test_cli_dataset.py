"""Data sets as `smoothcert evaluate` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from smoothcert.cli.dataset import DataSetError, read

CLASSES = ("dark", "light", "0")
IMAGES: Any = np.zeros((2, 8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with images that no test here reads."""
    for name in ("light/b.png", "dark/c.JPG", "dark/deep/a.webp", "dark/notes.txt"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)


def test_folders_are_classes() -> None:
    found = read(Path("data"), None, CLASSES)
    assert found.names == ["dark/c.JPG", "dark/deep/a.webp", "light/b.png"]
    assert found.images == [Path("data") / name for name in found.names]
    assert found.labels == [0, 0, 1]


def test_a_report_and_hidden_files_among_the_images_are_none_of_them() -> None:
    for name in ("data/report/report.png", "data/dark/._c.JPG"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    found = read(Path("data"), None, CLASSES, apart_from=Path("data/report"))
    assert found.names == ["dark/c.JPG", "dark/deep/a.webp", "light/b.png"]


@pytest.mark.parametrize("heading", ["", "file,label\r\n", "\ufefffile,label\n"])
def test_a_file_of_labels_says_which_images_and_in_which_order(heading: str) -> None:
    outside = Path("outside.png").absolute()
    Path("labels.csv").write_text(f"{heading}light/b.png,1\n\n{outside}, dark\n", encoding="utf-8")
    found = read(Path("data"), Path("labels.csv"), CLASSES)
    assert found.names == ["light/b.png", str(outside)]
    assert found.images == [Path("data/light/b.png"), outside]
    assert found.labels == [1, 0]


@pytest.mark.parametrize("labels", [[1, 2], np.array([1, 2], np.uint8), ["light", "0"], ["1", "0"]])
def test_a_name_goes_before_a_number(labels: Any) -> None:
    np.savez("data.npz", images=IMAGES, labels=labels)
    assert read(Path("data.npz"), None, CLASSES).labels == [1, 2]
    np.save("labels.npy", labels)
    assert read(Path("data.npz"), Path("labels.npy"), CLASSES).labels == [1, 2]


@pytest.mark.parametrize(
    ("source", "labels", "message"),
    [
        ("nowhere", None, "nowhere: there is no such file or folder; a data set is a folder of images, or a .npz"),
        ("semicolon.csv", None, "semicolon.csv: the file has another format"),
        ("data/dark", None, "c.JPG has no label: put it into a subfolder named after its class, or give --labels FILE"),
        ("empty", None, "empty has no images"),
        ("data", "semicolon.csv", "semicolon.csv, line 1 must be file,label, got 'light/b.png;1'"),
        ("data", "nowhere.csv", "cannot read the labels in nowhere.csv"),
        ("data", "empty.csv", "empty.csv has no labels"),
        ("data", "data", "cannot read the labels in data"),
        ("data", "binary.npz", "cannot read the labels in binary.npz"),
        ("data", "wrong.csv", "light/b.png: the label 'ship' is not one of the ensemble's 3 classes (dark, light, 0)"),
        ("nowhere.npz", None, "nowhere.npz: there is no such file or folder"),
        ("broken.npz", None, "broken.npz: the file has another format"),
        ("cut.npz", None, "cut.npz: the file has another format"),
        ("single.npz", None, "single.npz: the file has another format"),
        ("images.npz", None, "images.npz has no array 'labels', but images; --labels FILE.npy names a file of them"),
        ("other.npz", None, "other.npz has no array 'images', but x, y"),
        ("flat.npz", None, "flat.npz: images must have the shape [N, H, W, C], [N, C, H, W] or [N, H, W], got [2]"),
        ("short.npz", None, "short.npz: there must be a label for each of the 2 images, got the shape [1]"),
        ("images.npz", "short.npz", "short.npz has several arrays; the labels must be a .npy file"),
        ("images.npz", "semicolon.csv", "cannot read semicolon.csv: it is not a file of numpy arrays"),
        ("real.npz", None, "image 0: the label '0.5' is not one of"),
        ("negative.npz", None, "image 1: the label '-1' is not one of"),
        ("text.npz", None, "text.npz: 'images' is not a numpy array"),
        ("pickle.npz", None, "pickle.npz: the array 'images' cannot be read: it holds Python objects"),
        ("objects.npz", None, "which are never read; save np.array(labels, dtype=str) instead"),
        (
            "images.npz",
            "objects.npy",
            "cannot read objects.npy: it holds Python objects, which are never read; save np.",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(source: str, labels: str | None, message: str) -> None:
    Path("empty").mkdir()
    Path("empty.csv").touch()
    with ZipFile("text.npz", "w") as file:
        file.writestr("images", "words")
    Path("semicolon.csv").write_text("light/b.png;1\n")
    Path("wrong.csv").write_text("light/b.png,ship\n")
    Path("broken.npz").write_text("no arrays")
    Path("binary.npz").write_bytes(b"\xff\xfe")
    np.savez("images.npz", images=IMAGES)
    np.savez("other.npz", x=IMAGES, y=[0, 1])
    np.savez("flat.npz", images=np.zeros(2), labels=[0, 1])
    np.savez("short.npz", images=IMAGES, labels=[0])
    np.savez("real.npz", images=IMAGES, labels=[0.5, 1])
    np.savez("negative.npz", images=IMAGES, labels=[0, -1])
    np.savez("pickle.npz", images=np.array([{}, {}]), labels=[0, 0])
    np.savez("objects.npz", images=IMAGES, labels=np.array(["dark", "light"], dtype=object))
    np.save("objects.npy", np.array(["dark", "light"], dtype=object))
    Path("cut.npz").write_bytes(Path("images.npz").read_bytes()[:300])
    np.save("single.npy", IMAGES)
    Path("single.npy").rename("single.npz")
    with pytest.raises(DataSetError) as caught:
        read(Path(source), labels and Path(labels), CLASSES)
    assert message in str(caught.value)
