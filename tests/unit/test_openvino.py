"""Members that OpenVINO computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models.registry import load
from smoothcert import Fixed, Smoothed
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import PrecisionError, RuntimeNameError
from smoothcert.engine.form import optimiser_of, prepare
from smoothcert.extras import MissingExtraError
from smoothcert.noise import RoundedGaussian
from smoothcert.question import Question
from tests.support.networks import tiny
from tests.support.resnets import images, resnet
from tests.support.zoo import ALLOWED, make_zoo
from workers.replay import replay

pytest.importorskip("openvino", reason="the extra openvino is not installed")
SHAPE = (1, 4, 4)


def test_it_computes_in_the_precision_that_it_is_told() -> None:
    try:
        form = prepare(
            resnet(), name="m", classes=10, input_shape=(3, 32, 32), precision="bfloat16", runtime="openvino"
        )
    except PrecisionError as error:
        pytest.skip(str(error))
    exact = prepare(resnet(), name="m", classes=10, input_shape=(3, 32, 32), runtime="openvino")
    off = (form(images(64)) - exact(images(64))).abs().max()
    assert form.kind == "openvino"
    assert 1e-4 < float(off) < 0.25 * float(exact(images(64)).abs().max())


def test_a_certificate_names_the_runtime_and_is_replayed_by_it(tmp_path: Path) -> None:
    zoo = make_zoo(tmp_path)
    ensemble = load("trivial", zoo=zoo, batch=64, runtime="openvino", allowed_imports=frozenset(ALLOWED))
    pixels = torch.full((1, *ensemble.input_shape), 200, dtype=torch.uint8)
    assert ensemble.noise is not None
    with Engine(ensemble, batch=64) as engine:
        [certificate] = certify(engine, pixels, Question(ensemble.noise, Fixed(n0=10, n=60)))
    assert certificate.provenance is not None
    assert certificate.provenance.versions["openvino"] == ensemble.members[0].form.versions["openvino"]
    again = replay(certificate, pixels[0], zoo=zoo, allowed_imports=frozenset(ALLOWED))
    assert again.differences == ()
    assert again.remarks == ()
    assert again.certificate.provenance is not None
    assert "openvino" in again.certificate.provenance.versions


def test_smoothed_takes_the_runtime() -> None:
    with Smoothed(tiny(0).eval(), noise=RoundedGaussian(0.25), runtime="openvino") as smoothed:
        [certificate] = smoothed.certify(torch.zeros(1, *SHAPE, dtype=torch.uint8), procedure=Fixed(n=50))
    assert certificate.provenance is not None
    assert "openvino" in certificate.provenance.versions


def test_an_unknown_runtime_and_a_device_it_does_not_know_are_named() -> None:
    known = "torch, onnxruntime, openvino, compiled"
    with pytest.raises(RuntimeNameError, match=f"runtime must be one of {known}; got 'tensorrt'"):
        Smoothed(tiny(0), noise=RoundedGaussian(0.25), runtime="tensorrt")
    with pytest.raises(RuntimeNameError, match="openvino computes on the CPU, and the device is cuda:0"):
        optimiser_of("openvino", torch.device("cuda:0"))


def test_without_the_extra_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtraError, match=r"the runtime openvino needs openvino: pip install '\.\[openvi"):
        prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, runtime="openvino")


def test_openvino_reports_nothing_over_the_network() -> None:
    """Its package `openvino_telemetry` sends an event for every import and conversion, so it must not be imported."""
    code = (
        "import sys, torch; from smoothcert.engine.openvino import optimiser; optimiser(torch.device('cpu'));"
        "print(sorted(name for name, module in sys.modules.items() if 'openvino_telemetry' in name and module))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
