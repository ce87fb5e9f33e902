"""The shipped ensemble over HTTP: a real image in, a certificate out that the engine gives, too, and anybody checks."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from models.data import load_images
from models.registry import ZOO, load
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive
from smoothcert.question import Question
from tests.support.api import ROOT, Api
from tests.support.pool import without_times
from tests.support.whole import whole_service

NAME = "cifar10-resnet20-gaussian-0.25"
PIXELS = load_images(ZOO / "cifar10-test-100.json").pixels[[4, 5]]
ASKED = {"radius": 0.25, "procedure": {"name": "adaptive", "stages": [100, 1000]}, "consensus": 2}


def png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, list[str]]]:
    """Two images as multipart, and the certificates as the service wrote them."""
    files: list[Any] = [("images", (f"{i}.png", png(image), "image/png")) for i, image in enumerate(PIXELS)]
    data, wait = {"request": json.dumps(ASKED)}, {"Prefer": "wait=60"}
    with whole_service(tmp_path_factory.mktemp("shipped"), ZOO, ensembles=NAME) as api:
        answer = api.client.post("/v1/certifications", data=data, files=files, headers=wait)
        while (said := answer.json())["status"] in ("queued", "running"):
            answer = api.client.get(said["urls"]["self"], headers=wait)
        assert said["status"] == "succeeded", said
        yield api, [json.dumps(each, indent=2) for each in said["certificates"]]


def test_the_certificate_from_http_is_that_of_the_engine(certificates: tuple[Api, list[str]]) -> None:
    over_http = [Certificate.from_json(text) for text in certificates[1]]
    assert over_http[0].provenance is not None
    question = Question(Gaussian(0.25), Adaptive(stages=(100, 1000)), radius=0.25)
    with Engine(load(NAME).with_(consensus=2)) as engine:
        in_process = certify(engine, torch.from_numpy(PIXELS), question, seed=over_http[0].provenance.sampling.seed)
    assert [without_times(each) for each in over_http] == [without_times(each) for each in in_process]


def test_it_is_verified_over_http_and_on_the_command_line(certificates: tuple[Api, list[str]], tmp_path: Path) -> None:
    api, texts = certificates
    headers = {"Content-Type": "application/json"}
    assert api.client.post("/v1/verify", content=texts[0], headers=headers).json() == {
        "consistent": True,
        "problems": [],
    }
    file = tmp_path / "certificate.json"
    file.write_text(texts[0])
    said = subprocess.run([sys.executable, "-m", "smoothcert.cli", "verify", file], cwd=ROOT, capture_output=True)
    assert said.returncode == 0, said
    file.write_text(json.dumps({**json.loads(texts[0]), "samples": 12_345}))
    said = subprocess.run([sys.executable, "-m", "smoothcert.cli", "verify", file], cwd=ROOT, capture_output=True)
    assert said.returncode == 1


def test_it_is_replayed_from_its_seed(certificates: tuple[Api, list[str]], tmp_path: Path) -> None:
    file, image = tmp_path / "certificate.json", tmp_path / "image.png"
    file.write_text(certificates[1][1])
    image.write_bytes(png(PIXELS[1]))
    command = [sys.executable, "-m", "workers", "replay", str(file), str(image)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said
    assert "the same" in said.stdout
    image.write_bytes(png(PIXELS[0]))
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 1
    assert "another image" in said.stderr
    assert "Traceback" not in said.stderr
