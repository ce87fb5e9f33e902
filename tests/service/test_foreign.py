"""Ensembles of timm, transformers and ONNX in a real worker, over HTTP, and photographs of another size."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import PIL
import pytest
import torch
from huggingface_hub import constants
from PIL import Image

from app.local.embedded import EmbeddedServer
from models.addition import Addition, add
from models.registry import describe, load, rewrite
from smoothcert import Client, UnknownEnsembleError
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian, RoundedGaussian
from smoothcert.procedures import Fixed, Hierarchy
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.service import eventually
from tests.support import engines, hub
from tests.support.api import ROOT, Api, encoded, problem
from tests.support.command import png, smoothcert
from tests.support.onnx_files import patches_file
from tests.support.pool import Pool, without_times
from tests.support.zoo import add_small
from workers.__main__ import run
from workers.errors import ReplayError
from workers.replay import read_image, replay

SIGMA = 0.25
FIXED = {"name": "fixed", "n": 200, "n0": 20}
SOURCE = (50, 37)
"""The width and height of the photograph, which no ensemble here takes."""


HIDDEN = ("onnx", "onnxruntime", "timm", "transformers")


@dataclass(frozen=True)
class Service:
    client: httpx2.Client
    address: str
    zoo: Path
    server: EmbeddedServer

    def certified(self, ensemble: str, file: bytes, **fields: Any) -> Certificate:
        request: dict[str, Any] = {"ensemble": ensemble, "procedure": FIXED, **fields}
        answer = self.client.post(
            "/v1/certifications",
            data={"request": json.dumps(request)},
            files={"images": ("image", file)},
            headers={"Prefer": "wait=60"},
        ).json()
        assert answer["status"] == "succeeded", answer
        return Certificate.from_json(json.dumps(answer["certificates"][0]))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("foreign")
    fill(folder / "zoo", folder)
    with EmbeddedServer(folder / "valkey") as server:
        pool = Pool(server, folder / "zoo", "default")
        try:
            pool.start()
            with Api(server.url, folder) as api:
                yield Service(api.client, f"http://127.0.0.1:{api.port}", folder / "zoo", server)
        finally:
            pool.end()


def fill(zoo: Path, folder: Path) -> None:
    """Make a zoo with `hub`, a model of transformers beside one of timm, `onnx`, two ONNX files, and `plain`, of torch.

    The description of `broken` cannot be read.
    """
    (zoo / "broken").mkdir(parents=True)
    (zoo / "broken" / "ensemble.toml").write_text("no TOML")
    add_small(zoo, "plain", Gaussian(SIGMA))
    cache = folder / "cache"
    hub.put(cache, "timm/resnet10t.test", hub.timm_files())
    hub.put(cache, "test/resnet", hub.transformers_files(folder / "written", "resnet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        add("hub", [hub.RESNET, hub.TIMM], Addition(noise=Gaussian(SIGMA)), zoo=zoo)
    files = [folder / f"member-{seed}.onnx" for seed in range(2)]
    for seed, file in enumerate(files):
        file.write_bytes(patches_file(seed))
    add("onnx", files, Addition(("a", "b", "c", "d"), engines.SHAPE, noise=Gaussian(SIGMA)), zoo=zoo)
    pairs = ({"early": ["a", "b"], "late": ["c", "d"]},)
    rewrite("onnx", replace(describe("onnx", zoo=zoo), superclasses=pairs), zoo=zoo)


def pixels(width: int, height: int) -> Any:
    return np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)


def replayed(certificate: Certificate, image: Path, zoo: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `python -m workers replay` prints; it must find every count again."""
    file = image.with_suffix(".json")
    file.write_text(certificate.to_json())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["workers", "replay", str(file), str(image), "--zoo", str(zoo)])
        with pytest.raises(SystemExit) as end:
            run()
    assert not end.value.code, capsys.readouterr()
    return capsys.readouterr().out


# --- models of others


@pytest.mark.parametrize(
    ("ensemble", "libraries"), [("hub", ("timm", "transformers")), ("onnx", ("onnxruntime",))], ids=["hub", "onnx"]
)
def test_a_worker_serves_models_of_others_and_its_certificates_are_those_of_the_engine(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str], ensemble: str, libraries: tuple[str, ...]
) -> None:
    held = load(ensemble, zoo=service.zoo)
    _, height, width = held.input_shape
    image, picture = tmp_path / "image.png", pixels(width, height)
    image.write_bytes(encoded(Image.fromarray(picture)))
    certificate = service.certified(ensemble, image.read_bytes())
    assert verify(certificate)
    assert certificate.provenance is not None
    assert {each: certificate.provenance.versions[each] for each in libraries} == {
        each: version(each) for each in libraries
    }
    sampling = certificate.provenance.sampling
    question = Question(RoundedGaussian(SIGMA), Fixed(n=200, n0=20))
    batch = torch.from_numpy(picture.transpose(2, 0, 1)[None])
    with Engine(held) as engine:
        (here,) = certify(engine, batch, question, seed=sampling.seed, nonce=sampling.nonce)
    assert without_times(certificate) == without_times(here)
    assert "the same: " in replayed(certificate, image, service.zoo, capsys)


@contextmanager
def bare_worker(service: Service, folder: Path) -> Iterator[None]:
    """A worker process whose interpreter cannot import the libraries, as in an image without extras."""
    for name in HIDDEN:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('hidden', name={name!r})\n")
    pool = Pool(service.server, service.zoo, "bare")
    process = subprocess.Popen(
        [sys.executable, "-m", "workers"], env=pool.environment() | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    )
    try:
        eventually(pool.workers, "the worker")
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_a_worker_without_the_extras_names_them_and_serves_the_others(service: Service, tmp_path: Path) -> None:
    with bare_worker(service, tmp_path):
        listed = service.client.get("/v1/ensembles").json()
        printed = smoothcert("ensembles", url=service.address)
    reasons = {each["name"]: re.sub(r"^/\S+: ", "", each["reason"]) for each in listed["failed"]}
    assert "not TOML" in reasons.pop("broken")
    assert reasons == {
        "hub": "a model of transformers needs transformers: pip install '.[hub]' in a clone of smoothcert",
        "onnx": "an ONNX member needs onnx: pip install '.[onnx]' in a clone of smoothcert",
    }
    for sentence in reasons.values():
        assert sentence in " ".join((printed.stdout + printed.stderr).split())


def test_a_request_for_an_ensemble_that_could_not_be_loaded_is_told_why(service: Service, tmp_path: Path) -> None:
    sentence = "the ensemble broken cannot be loaded: "
    refused = problem(service.client.get("/v1/ensembles/broken"), "ensemble_not_loaded")
    reason = refused.detail.removeprefix(sentence)
    assert reason != refused.detail
    assert "ensemble.toml" in reason
    (tmp_path / "image.png").write_bytes(png(0))
    printed = smoothcert("certify", tmp_path / "image.png", "--ensemble", "broken", url=service.address)
    assert (printed.returncode, " ".join(printed.stderr.split())) == (1, f"error: {sentence}{reason}")
    with Client(service.address) as client, pytest.raises(UnknownEnsembleError, match="cannot be loaded") as caught:
        client.certify(png(0), ensemble="broken", radius=0.1)
    assert caught.value.detail == sentence + reason


# --- superclasses


def test_a_declared_superclass_is_proved_where_no_class_is(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The most likely class has 44 % of the samples, and its superclass two thirds."""
    image = tmp_path / "image.png"
    image.write_bytes(encoded(Image.fromarray(pixels(4, 4))))
    noisy = {"noise": {"name": "rounded-gaussian", "sigma": 0.5}, "allow_noise_mismatch": True}
    (listed,) = [each for each in service.client.get("/v1/ensembles").json()["data"] if each["name"] == "onnx"]
    procedure = {"name": "hierarchy", "levels": "declared", "n": 2000, "n0": 400}
    assert service.certified("onnx", image.read_bytes(), **noisy, procedure=FIXED).decision == "abstain"
    certificate = service.certified("onnx", image.read_bytes(), **noisy, procedure=procedure)
    assert (certificate.decision, certificate.class_name) == ("certified", "early")
    assert isinstance(certificate.procedure, Hierarchy)
    assert [[each.model_dump(mode="json") for each in level] for level in certificate.procedure.known] == listed[
        "superclasses"
    ]
    assert verify(certificate)
    assert "superclass 'early'" in certificate.remarks[0]
    assert "the same: " in replayed(certificate, image, service.zoo, capsys)


@pytest.mark.parametrize(
    ("ensemble", "levels", "words"),
    [
        ("hub", "declared", "the ensemble declares no superclasses: give them in the request"),
        ("hub", [[{"name": "x", "classes": [3]}]], "'x' has the class 3, and the ensemble has the classes 0 to 2"),
        ("hub", [[{"name": "x", "classes": [1, 0]}]], "must be in increasing order"),
    ],
)  # fmt: skip
def test_superclasses_that_the_ensemble_does_not_have_are_refused(
    service: Service, ensemble: str, levels: Any, words: str
) -> None:
    request = {"ensemble": ensemble, "procedure": {"name": "hierarchy", "levels": levels}}
    files = {"images": ("image", encoded(Image.fromarray(pixels(32, 32))))}
    answer = service.client.post("/v1/certifications", data={"request": json.dumps(request)}, files=files)
    assert answer.status_code == 422, answer.text
    assert words in answer.text


# --- images of another size


@pytest.mark.parametrize(
    ("resize", "box", "kind"),
    [
        ("cover", (6.5, 0, 43.5, 37), "JPEG"),
        ("stretch", (0, 0, 50, 37), "PNG"),
        ("center", (9, 2, 41, 34), "WEBP"),
        ('{"fit": "cover", "share": 0.875, "method": "lanczos"}', (8.8125, 2.3125, 41.1875, 34.6875), "PNG"),
    ],
    ids=["cover", "stretch", "center", "share"],
)
def test_a_photograph_of_another_size_is_certified_verified_and_replayed(
    service: Service,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    resize: str,
    box: tuple[float, ...],
    kind: str,
) -> None:
    """The command certifies it, and the recorded resizing, applied by hand, gives the certified pixels."""
    photograph, file = tmp_path / f"photograph.{kind.lower()}", tmp_path / "certificate.jsonl"
    photograph.write_bytes(encoded(Image.fromarray(pixels(*SOURCE)), kind))
    done = smoothcert(
        "certify", photograph, "--ensemble", "hub", "--procedure", json.dumps(FIXED), "--resize", resize,
        "--out", file, url=service.address,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    certificate = Certificate.from_json(file.read_text())
    assert certificate.provenance is not None
    stated = certificate.provenance.input.resized
    assert stated is not None
    assert (stated.source, stated.size, stated.by) == (SOURCE, (32, 32), f"Pillow {PIL.__version__}")
    assert stated.box == pytest.approx(box)
    checked = smoothcert("verify", file)
    assert checked.returncode == 0, checked
    assert "What was certified is a resized image" in " ".join(checked.stdout.split())
    with Image.open(photograph) as source:
        method = getattr(Image.Resampling, (stated.method or "nearest").upper())
        resized = source.resize((32, 32), method, box=box)
    result = tmp_path / "resized.png"
    resized.save(result)
    for image in (photograph, result):
        assert "the same: " in replayed(certificate, image, service.zoo, capsys)


def test_source_and_result_of_one_size_are_told_apart_by_their_pixels(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mutant killed: a replay that resizes every image of the source's size."""
    source, result = tmp_path / "source.png", tmp_path / "result.png"
    picture = Image.fromarray(pixels(32, 32))
    source.write_bytes(encoded(picture))
    certificate = service.certified("hub", source.read_bytes(), resize={"fit": "cover", "share": 0.5})
    picture.resize((32, 32), Image.Resampling.BICUBIC, box=(8, 8, 24, 24)).save(result)
    assert picture.tobytes() != Image.open(result).tobytes()
    for image in (source, result):
        assert "the same: " in replayed(certificate, image, service.zoo, capsys)


def test_a_source_that_had_to_be_converted_is_replayed_as_it_was_sent(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "transparent.png"
    picture = Image.fromarray(pixels(*SOURCE))
    picture.putalpha(200)
    source.write_bytes(encoded(picture))
    certificate = service.certified("hub", source.read_bytes(), resize="cover", convert="rgb")
    assert "the same: " in replayed(certificate, source, service.zoo, capsys)


def test_another_photograph_is_not_the_one_that_was_certified(service: Service, tmp_path: Path) -> None:
    certificate = service.certified("hub", encoded(Image.fromarray(pixels(*SOURCE))), resize="cover")
    other = tmp_path / "other.png"
    other.write_bytes(encoded(Image.fromarray(255 - pixels(*SOURCE))))
    with pytest.raises(ReplayError, match=r"another image: its pixels have sha256 \w+, the certificate says \w+$"):
        replay(certificate, read_image(other), zoo=service.zoo)


def test_an_image_of_the_right_size_has_its_record_too(service: Service) -> None:
    file = io.BytesIO()
    Image.fromarray(pixels(32, 32)).save(file, "PNG")
    certificate = service.certified("hub", file.getvalue(), resize="cover")
    assert certificate.provenance is not None
    assert certificate.provenance.input.resized is not None
    assert certificate.provenance.input.resized.box == (0, 0, 32, 32)
    assert certificate.provenance.input.sha256 == service.certified("hub", file.getvalue()).provenance.input.sha256  # type: ignore[union-attr]
