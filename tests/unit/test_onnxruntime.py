"""Members of torch that onnxruntime computes."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from models.addition import Addition, add
from models.programs import read_program
from models.registry import load
from models.resnet import resnet20
from smoothcert import Fixed, Smoothed
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify
from smoothcert.engine.denoised import Denoised
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import PrecisionError, RuntimeNameError
from smoothcert.engine.form import optimiser_of, prepare, resize
from smoothcert.engine.onnx.network import OnnxNetwork
from smoothcert.engine.onnxruntime import OnnxRuntime
from smoothcert.extras import MissingExtraError
from smoothcert.noise import RoundedGaussian
from smoothcert.question import Question
from tests.support.branching import Branching
from tests.support.engines import NOISE, Patches
from tests.support.engines import SHAPE as COLOUR
from tests.support.networks import tiny
from tests.support.onnx_files import patches_file
from tests.support.programs import exported, scripted
from tests.support.zoo import ALLOWED, make_zoo
from workers.replay import replay

SHAPE = (1, 4, 4)
CLASSES = ("a", "b", "c", "d")


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


def certified(ensemble: Ensemble) -> tuple[Certificate, Tensor]:
    """A certificate of an ensemble of the zoo, and its image."""
    pixels = torch.full((1, *ensemble.input_shape), 200, dtype=torch.uint8)
    assert ensemble.noise is not None
    with Engine(ensemble, batch=64) as engine:
        (certificate,) = certify(engine, pixels, Question(ensemble.noise, Fixed(n0=10, n=60)))
    return certificate, pixels[0]


def test_it_gives_the_classes_of_the_plain_network_at_every_place_of_a_batch() -> None:
    network = resnet()
    form = prepare(network, name="m", classes=10, input_shape=(3, 32, 32), runtime="onnxruntime")
    batch = images(70)
    logits = form(batch)
    with torch.no_grad():
        plain = network(batch)
    assert isinstance(form.network, OnnxRuntime)
    assert torch.equal(logits.argmax(1), plain.argmax(1))
    assert torch.allclose(logits, plain, rtol=1e-3, atol=1e-4)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(0))
    assert torch.equal(form(batch[order]), logits[order])
    assert torch.equal(form(batch[69:]), logits[69:])


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


def test_a_resized_form_is_exported_for_its_own_slices() -> None:
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=8, runtime="onnxruntime")
    smaller = resize(form, 3, name="m", classes=3)
    batch = torch.rand(8, *SHAPE)
    assert smaller.network is form.network
    assert torch.allclose(smaller(batch), form(batch), atol=1e-6)


def test_threads_may_call_it_at_once() -> None:
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=32, runtime="onnxruntime")
    batches = [torch.rand(32, *SHAPE) for _ in range(64)]
    expected = [form(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        assert all(map(torch.equal, threads.map(form, batches), expected))


def test_in_another_precision_torch_computes(caplog: pytest.LogCaptureFixture) -> None:
    """Mutant killed: float32 under the name of another precision."""
    try:
        with caplog.at_level(logging.WARNING):
            form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, precision="bfloat16", runtime="onnxruntime")
    except PrecisionError as error:
        pytest.skip(str(error))
    assert form.kind == "folded"
    assert "computes in float32, and the precision is torch.bfloat16" in caplog.text


def test_a_network_that_it_cannot_export_runs_by_torch_and_the_certificate_says_torch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("an operator that nobody knows")

    monkeypatch.setattr(OnnxRuntime, "_export", refuse)
    with caplog.at_level(logging.WARNING):
        ensemble = assemble([tiny(0)], classes="abc", input_shape=SHAPE, runtime="onnxruntime")
    assert ensemble.members[0].form.kind == "folded"
    assert ensemble.runtime == "torch"
    assert not {"onnxruntime", "runtime"} & set(ensemble.arithmetic)
    assert "runs by torch: MemberError" in caplog.text
    assert "an operator that nobody knows" in caplog.text


def test_one_whose_pixels_choose_a_branch_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """Mutant killed: tracing keeps the branch that its example took, and no probe takes the other one."""
    with caplog.at_level(logging.WARNING):
        form = prepare(Branching(), name="m", classes=3, input_shape=SHAPE, runtime="onnxruntime")
    assert form.kind == "plain"
    bright = torch.full((4, *SHAPE), 1.5)
    assert torch.equal(form(bright), Branching()(bright))


def test_one_that_mixes_rows_is_not_used(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: a form of another runtime that is only compared with the plain one on the probe itself."""
    inner = OnnxRuntime.forward
    monkeypatch.setattr(OnnxRuntime, "forward", lambda self, x: inner(self, x) + 9 * x.mean())
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, runtime="onnxruntime")
    assert form.kind == "folded"
    assert "when other images are beside it" in caplog.text


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
