"""The service as `make serve` starts it, with the shipped ensemble: its certificates are those of the engine."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from models.data import load_images
from models.registry import ZOO, load
from smoothcert.certificate import Certificate
from smoothcert.certification import Certification
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Replacement, RoundedGaussian
from smoothcert.procedures import Adaptive, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.service import running_in
from tests.support.api import ANSWER_S, ROOT
from tests.support.pool import without_times
from tests.support.serving import Serving
from workers.replay import replay

NAME = "cifar10-resnet20-gaussian-0.25"
PIXELS = load_images(ZOO / "cifar10-test-100.json").pixels[[4, 5]]
DENOISED = "cifar10-resnet20-denoised-0.25"
L0 = "mnist-lenet-replacement-0.8"
DIGITS = load_images(ZOO / "mnist-test-100.json").pick([22, 25, 30])
REQUEST = {"radius": 0.25, "procedure": {"name": "adaptive", "stages": [100, 1000]}, "consensus": 2}


def png(pixels: Any) -> bytes:
    file = io.BytesIO()
    picture = np.ascontiguousarray(pixels.transpose(1, 2, 0))
    Image.fromarray(picture if len(pixels) == 3 else picture[..., 0]).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The service with the real API and worker, once it is ready."""
    serving = Serving(tmp_path_factory.mktemp("shipped")).start_for_real()
    try:
        serving.printed("Ctrl-C ends it.")
        yield serving
    finally:
        serving.process.kill()
        serving.process.wait()


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"http://127.0.0.1:{service.port}", timeout=ANSWER_S) as client:
        yield client


@pytest.fixture(scope="module")
def certificates(client: httpx2.Client) -> list[str]:
    """The certificates of two images as the service wrote them."""
    return certificates_of(client, REQUEST, [png(image) for image in PIXELS])


def certificates_of(client: httpx2.Client, request: dict[str, Any], pictures: list[bytes]) -> list[str]:
    """The certificates as the service wrote them."""
    files: list[Any] = [("images", (f"{i}.png", picture, "image/png")) for i, picture in enumerate(pictures)]
    data, wait = {"request": json.dumps(request)}, {"Prefer": "wait=60"}
    answer = client.post("/v1/certifications", data=data, files=files, headers=wait)
    while (certification := answer.json())["status"] in ("queued", "running"):
        answer = client.get(certification["urls"]["self"], headers=wait)
    assert certification["status"] == "succeeded", certification
    return [json.dumps(each, indent=2) for each in certification["certificates"]]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here to run the printed line with")
def test_the_lines_that_it_prints_certify_images(service: Serving) -> None:
    classes = []
    for line in re.findall(r"try +(curl .*)", service.output.read_text()):
        answer = subprocess.run(["bash", "-c", line], cwd=service.folder, capture_output=True, check=True)
        certification = Certification.model_validate_json(answer.stdout)
        assert certification.status == "succeeded"
        classes.append(certification.certificates[0].class_name)
    assert classes == ["ship", "7"]


def test_the_certificate_from_http_is_that_of_the_engine(certificates: list[str]) -> None:
    over_http = [Certificate.from_json(text) for text in certificates]
    assert over_http[0].provenance is not None
    question = Question(RoundedGaussian(0.25), Adaptive(stages=(100, 1000)), radius=0.25)
    sampling = over_http[0].provenance.sampling
    with Engine(load(NAME).with_(consensus=2)) as engine:
        in_process = certify(engine, torch.from_numpy(PIXELS), question, seed=sampling.seed, nonce=sampling.nonce)
    assert [without_times(each) for each in over_http] == [without_times(each) for each in in_process]


def test_it_is_verified_over_http_and_on_the_command_line(
    client: httpx2.Client, certificates: list[str], tmp_path: Path
) -> None:
    headers = {"Content-Type": "application/json"}
    verified = client.post("/v1/verify", content=certificates[0], headers=headers).json()
    assert (verified["consistent"], verified["problems"]) == (True, [])
    file = tmp_path / "certificate.json"
    file.write_text(certificates[0])
    done = subprocess.run([sys.executable, "-m", "smoothcert.cli", "verify", file], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done
    file.write_text(json.dumps({**json.loads(certificates[0]), "samples": 12_345}))
    done = subprocess.run([sys.executable, "-m", "smoothcert.cli", "verify", file], cwd=ROOT, capture_output=True)
    assert done.returncode == 1


def test_real_digits_are_certified_in_l0_over_http_and_in_the_library(client: httpx2.Client) -> None:
    """The last digit is uploaded as a colour picture, and `convert` makes it grey again."""
    request = {"ensemble": L0, "radius": 2, "procedure": "sequential", "consensus": 2, "convert": "grey"}
    colour = png(np.repeat(DIGITS.pixels[2], 3, axis=0))
    texts = certificates_of(client, request, [*(png(digit) for digit in DIGITS.pixels[:2]), colour])
    over_http = [Certificate.from_json(text) for text in texts]
    assert [(each.decision, each.class_index, each.radius) for each in over_http] == [
        ("certified", label, 2) for label in DIGITS.labels.tolist()
    ]
    assert all(verify(each) for each in over_http)
    assert over_http[0].provenance is not None
    question = Question(Replacement(0.8, 2), Sequential(), radius=2)
    with Engine(load(L0).with_(consensus=2)) as engine:
        sampling, digits = over_http[0].provenance.sampling, torch.from_numpy(DIGITS.pixels)
        in_process = certify(engine, digits, question, seed=sampling.seed, nonce=sampling.nonce)
    assert [without_times(each) for each in over_http] == [without_times(each) for each in in_process]


def test_a_ship_is_certified_behind_denoisers_that_share_one_classifier(client: httpx2.Client) -> None:
    request = {"ensemble": DENOISED, "radius": 0.1, "procedure": {"name": "adaptive", "stages": [100, 300]}}
    ship = torch.from_numpy(PIXELS[:1])
    over_http = Certificate.from_json(*certificates_of(client, request, [png(PIXELS[0])]))
    assert (over_http.decision, over_http.class_name) == ("certified", "ship")
    assert over_http.radius >= 0.1
    assert verify(over_http)
    assert over_http.provenance is not None
    ensemble, sampling = load(DENOISED), over_http.provenance.sampling
    question = Question(RoundedGaussian(0.25), Adaptive(stages=(100, 300)), radius=0.1)
    with Engine(ensemble) as engine:
        (in_process,) = certify(engine, ship, question, seed=sampling.seed, nonce=sampling.nonce)
    assert without_times(over_http) == without_times(in_process)
    again = replay(over_http, ship[0])
    assert (again.differences, again.remarks) == ((), ())
    for chains in zip(*((member.network, member.form.network) for member in ensemble.members), strict=True):
        denoisers, classifiers = zip(*(chain.children() for chain in chains), strict=True)
        assert len(set(map(_weights, denoisers))) == 3
        assert len(set(map(_weights, classifiers))) == 1


def _weights(network: nn.Module) -> tuple[int, ...]:
    """The addresses of the weights in memory."""
    return tuple(tensor.data_ptr() for tensor in network.parameters())


def test_it_is_replayed_from_its_seed(certificates: list[str], tmp_path: Path) -> None:
    file, image = tmp_path / "certificate.json", tmp_path / "image.png"
    file.write_text(certificates[1])
    image.write_bytes(png(PIXELS[1]))
    command = [sys.executable, "-m", "workers", "replay", str(file), str(image)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert "the same" in done.stdout
    image.write_bytes(png(PIXELS[0]))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "another image" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_it_and_leaves_nothing_running(service: Serving) -> None:
    """This must be the last test of the file."""
    service.interrupt()
    assert service.exit_code() == 0
    assert running_in(service.folder) == {}
