"""The sample images of the page, over HTTP."""

from __future__ import annotations

import io

import httpx2
import numpy as np
import pytest
from PIL import Image

from app.samples import Samples, samples
from models.data import load_images
from models.registry import ZOO
from tests.support.api import problem

SHEET = load_images(ZOO / "cifar10-test-100.json")


def test_samples_are_the_pixels_of_the_sheet(client: httpx2.Client) -> None:
    listed = client.get("/samples").json()
    assert (tuple(listed["shape"]), listed["classes"]) == (SHEET.pixels.shape[1:], list(SHEET.classes))
    assert listed["labels"] == SHEET.labels.tolist()
    for index in (0, 4, 57, 99):
        answer = client.get(f"/samples/{index}.png")
        assert answer.headers["content-type"] == "image/png"
        pixels = np.asarray(Image.open(io.BytesIO(answer.content))).transpose(2, 0, 1)
        assert (pixels == SHEET.pixels[index]).all()


@pytest.mark.parametrize("name", ["100.png", "-1.png", "4.jpg", "4", "1e1.png", "٤.png", "9999999.png"])
def test_other_samples_are_not_there(client: httpx2.Client, name: str) -> None:
    problem(client.get(f"/samples/{name}"), "not_found")


def test_without_a_sheet_there_are_no_samples() -> None:
    assert samples(ZOO / "nothing.json") == Samples()
