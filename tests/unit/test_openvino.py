"""Members that OpenVINO computes."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from models.registry import load
from models.resnet import resnet20
from smoothcert import Fixed, Smoothed
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.errors import PrecisionError, RuntimeNameError
from smoothcert.engine.form import optimiser_of, prepare, resize
from smoothcert.engine.openvino import OpenVino
from smoothcert.extras import MissingExtraError
from smoothcert.noise import RoundedGaussian
from smoothcert.question import Question
from tests.support.branching import Branching
from tests.support.networks import tiny
from tests.support.zoo import ALLOWED, make_zoo
from workers.replay import replay, runtime_of

pytest.importorskip("openvino", reason="the extra openvino is not installed")
SHAPE = (1, 4, 4)


def resnet() -> nn.Module:
    torch.manual_seed(0)
    network = resnet20().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
    return network


def images(rows: int) -> Tensor:
    return torch.rand(rows, 3, 32, 32, generator=torch.Generator().manual_seed(rows))


def test_it_gives_the_classes_of_the_plain_network_at_every_place_of_a_batch() -> None:
    network = resnet()
    form = prepare(network, name="m", classes=10, input_shape=(3, 32, 32), runtime="openvino")
    batch = images(70)
    logits = form(batch)
    with torch.no_grad():
        plain = network(batch)
    assert form.kind == "openvino"
    assert torch.equal(logits.argmax(1), plain.argmax(1))
    assert torch.allclose(logits, plain, rtol=1e-3, atol=1e-4)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(0))
    assert torch.equal(form(batch[order]), logits[order])
    assert torch.equal(form(batch[69:]), logits[69:])


def test_a_resized_form_is_compiled_for_its_own_slices() -> None:
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=8, runtime="openvino")
    smaller = resize(form, 3, name="m", classes=3)
    batch = torch.rand(8, *SHAPE)
    assert smaller.network is form.network
    assert torch.allclose(smaller(batch), form(batch), atol=1e-6)


def test_threads_that_call_it_at_once_do_not_share_buffers() -> None:
    """Mutant killed: one request for all threads."""
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=32, runtime="openvino")
    batches = [torch.rand(32, *SHAPE) for _ in range(64)]
    expected = [form(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        assert all(map(torch.equal, threads.map(form, batches), expected))


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


def test_a_network_that_it_cannot_compile_runs_by_torch_and_the_certificate_says_torch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("an operator that nobody knows")

    monkeypatch.setattr(OpenVino, "_compile", refuse)
    with caplog.at_level(logging.WARNING):
        ensemble = assemble([tiny(0)], classes="abc", input_shape=SHAPE, runtime="openvino")
    assert ensemble.members[0].form.kind == "folded"
    assert ensemble.runtime == "torch"
    assert "openvino" not in ensemble.arithmetic
    assert "runs by torch: MemberError" in caplog.text
    assert "an operator that nobody knows" in caplog.text


def test_one_whose_pixels_choose_a_branch_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """Mutant killed: tracing keeps the branch that its example took, and no probe takes the other one."""
    with caplog.at_level(logging.WARNING):
        form = prepare(Branching(), name="m", classes=3, input_shape=SHAPE, runtime="openvino")
    assert form.kind == "plain"
    bright = torch.full((4, *SHAPE), 1.5)
    assert torch.equal(form(bright), Branching()(bright))


def test_one_that_mixes_rows_is_not_used(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: a form of another runtime that is only compared with the plain one on the probe itself."""
    inner = OpenVino.forward
    monkeypatch.setattr(OpenVino, "forward", lambda self, x: inner(self, x) + 9 * x.mean())
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, runtime="openvino")
    assert form.kind == "folded"
    assert "when other images are beside it" in caplog.text


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


def test_an_earlier_certificate_names_the_runtime_by_its_version_alone() -> None:
    assert runtime_of({"torch": "2", "openvino": "2026"}) == "openvino"
    assert runtime_of({"torch": "2", "compiled": "2"}) == "compiled"
    assert runtime_of({"torch": "2", "onnxruntime": "1"}) == "torch"  # that of a member which is an ONNX file
    assert runtime_of({"torch": "2", "onnxruntime": "1", "runtime": "onnxruntime"}) == "onnxruntime"


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
