"""Members of torch that onnxruntime computes."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from models.addition import Addition, add
from models.programs import read_program
from models.registry import load
from smoothcert import Fixed, Smoothed
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.denoised import Denoised
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import PrecisionError, RuntimeNameError
from smoothcert.engine.form import optimiser_of, prepare
from smoothcert.engine.onnx.network import OnnxNetwork
from smoothcert.engine.onnxruntime import OnnxRuntime
from smoothcert.extras import MissingExtraError
from smoothcert.noise import RoundedGaussian
from smoothcert.question import Question
from tests.support.engines import NOISE, Patches
from tests.support.engines import SHAPE as COLOUR
from tests.support.networks import tiny
from tests.support.onnx_files import patches_file
from tests.support.programs import exported, scripted
from tests.support.zoo import ALLOWED, make_zoo
from workers.replay import replay

SHAPE = (1, 4, 4)
CLASSES = ("a", "b", "c", "d")


def certified(ensemble: Ensemble) -> tuple[Certificate, Tensor]:
    """A certificate of an ensemble of the zoo, and its image."""
    pixels = torch.full((1, *ensemble.input_shape), 200, dtype=torch.uint8)
    assert ensemble.noise is not None
    with Engine(ensemble, batch=64) as engine:
        (certificate,) = certify(engine, pixels, Question(ensemble.noise, Fixed(n0=10, n=60)))
    return certificate, pixels[0]


@pytest.mark.parametrize("kind", ["torchscript", "exported", "denoiser"])
def test_it_computes_the_other_forms_of_torch(kind: str) -> None:
    network: nn.Module = tiny(0).eval()
    match kind:
        case "torchscript":
            network = read_program(kind, scripted(network))
        case "exported":
            network = read_program(kind, exported(network))
        case "denoiser":
            network = Denoised(nn.AvgPool2d(3, stride=1, padding=1), network).eval()
    form = prepare(network, name="m", classes=3, input_shape=SHAPE, batch=8, runtime="onnxruntime")
    batch = torch.rand(20, *SHAPE)
    assert isinstance(form.network, OnnxRuntime)
    with torch.no_grad():
        assert torch.allclose(form(batch), network(batch), atol=1e-5)


def test_in_another_precision_torch_computes(caplog: pytest.LogCaptureFixture) -> None:
    """Mutant killed: float32 under the name of another precision."""
    try:
        with caplog.at_level(logging.WARNING):
            form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, precision="bfloat16", runtime="onnxruntime")
    except PrecisionError as error:
        pytest.skip(str(error))
    assert form.kind == "folded"
    assert "computes in float32, and the precision is torch.bfloat16" in caplog.text


def test_a_certificate_names_the_runtime_and_is_replayed_by_it(tmp_path: Path) -> None:
    zoo = make_zoo(tmp_path)
    ensemble = load("trivial", zoo=zoo, batch=64, runtime="onnxruntime", allowed_imports=frozenset(ALLOWED))
    certificate, image = certified(ensemble)
    assert certificate.provenance is not None
    stated = certificate.provenance.versions
    assert (stated["runtime"], stated["onnxruntime"]) == (
        "onnxruntime",
        ensemble.members[0].form.versions["onnxruntime"],
    )
    again = replay(certificate, image, zoo=zoo, allowed_imports=frozenset(ALLOWED))
    assert again.differences == ()
    assert again.remarks == ()
    assert again.certificate.provenance is not None
    assert again.certificate.provenance.versions["runtime"] == "onnxruntime"


def test_beside_an_onnx_file_a_certificate_says_what_computed_the_members_of_torch(tmp_path: Path) -> None:
    """Mutant killed: a replay that takes the version of onnxruntime for the runtime."""
    (tmp_path / "file.onnx").write_bytes(patches_file(0))
    (tmp_path / "script.pt").write_bytes(scripted(Patches(1).eval(), COLOUR))
    zoo = tmp_path / "zoo"
    add("mixed", [tmp_path / "file.onnx", tmp_path / "script.pt"], Addition(CLASSES, COLOUR, noise=NOISE), zoo=zoo)
    for runtime, kinds in (("torch", ["onnxruntime", "frozen"]), ("onnxruntime", ["onnxruntime", "onnxruntime"])):
        ensemble = load("mixed", zoo=zoo, batch=64, runtime=runtime)
        assert [member.form.kind for member in ensemble.members] == kinds
        certificate, image = certified(ensemble)
        again = replay(certificate, image, zoo=zoo).certificate
        for each in (certificate, again):
            assert each.provenance is not None
            assert each.provenance.versions.get("runtime", "torch") == runtime


def test_what_is_an_onnx_file_already_stays_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    file = OnnxNetwork(patches_file(0))
    with caplog.at_level(logging.WARNING):
        form = prepare(file, name="m", classes=4, input_shape=COLOUR, batch=8, runtime="onnxruntime")
    assert form.network is file
    assert not caplog.text


def test_smoothed_takes_the_runtime() -> None:
    with Smoothed(tiny(0).eval(), noise=RoundedGaussian(0.25), runtime="onnxruntime") as smoothed:
        [certificate] = smoothed.certify(torch.zeros(1, *SHAPE, dtype=torch.uint8), procedure=Fixed(n=50))
    assert certificate.provenance is not None
    assert certificate.provenance.versions["runtime"] == "onnxruntime"


def test_a_device_that_it_does_not_know_is_named() -> None:
    with pytest.raises(RuntimeNameError, match="onnxruntime computes on the CPU, and the device is cuda:0"):
        optimiser_of("onnxruntime", torch.device("cuda:0"))


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra_one_sentence_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"the runtime onnxruntime needs {package}: pip install '\.\[onnx\]'"):
        prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, runtime="onnxruntime")
