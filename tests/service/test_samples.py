"""The sample images of the page, over HTTP."""

from __future__ import annotations

import io
from pathlib import Path

import httpx2
import numpy as np
import pytest
from PIL import Image

from app.samples import sheets
from models.data import load_images
from models.registry import ZOO
from tests.support.api import problem


@pytest.mark.parametrize("name", ["cifar10-test-100", "mnist-test-100"])
def test_samples_are_the_pixels_of_their_sheet(client: httpx2.Client, name: str) -> None:
    sheet = load_images(ZOO / f"{name}.json")
    (listed,) = [each for each in client.get("/samples").json()["data"] if each["name"] == name]
    assert (tuple(listed["shape"]), listed["classes"]) == (sheet.pixels.shape[1:], list(sheet.classes))
    assert listed["labels"] == sheet.labels.tolist()
    for index in (0, 4, 57, 99):
        answer = client.get(f"/samples/{name}/{index}.png")
        assert answer.headers["content-type"] == "image/png"
        pixels = np.asarray(Image.open(io.BytesIO(answer.content)))
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        assert (pixels == sheet.pixels[index]).all()


@pytest.mark.parametrize("name", ["100.png", "-1.png", "4.jpg", "4", "1e1.png", "٤.png", "9999999.png"])
def test_other_samples_are_not_there(client: httpx2.Client, name: str) -> None:
    problem(client.get(f"/samples/cifar10-test-100/{name}"), "not_found")
    problem(client.get("/samples/another/4.png"), "not_found")


def test_without_a_folder_there_are_no_samples(tmp_path: Path) -> None:
    assert sheets(tmp_path / "nothing") == {}
