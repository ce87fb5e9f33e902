"""Members that torch.compile computes, on the CPU; `make gpu` runs them with CUDA graphs."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from models.registry import load
from smoothcert import Fixed
from smoothcert.engine.case import certify
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import RuntimeNameError
from smoothcert.engine.form import optimiser_of, prepare
from smoothcert.question import Question
from tests.support.engines import DEVICE
from tests.support.networks import tiny
from tests.support.zoo import ALLOWED, make_zoo
from workers.replay import replay

SHAPE = (1, 4, 4)
compiler = pytest.mark.skipif(
    DEVICE == "cpu" and shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU"
)


@compiler
def test_it_gives_the_classes_of_the_plain_network_at_every_place_of_a_batch() -> None:
    network = tiny(0)
    form = prepare(network, name="m", classes=3, input_shape=SHAPE, batch=64, device=DEVICE, runtime="compiled")
    batch = torch.rand(150, *SHAPE, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    logits = form(batch)
    assert form.kind == "compiled"
    with torch.no_grad():
        assert torch.allclose(logits, network(batch), atol=1e-5)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    assert torch.equal(form(batch[order]), logits[order])


@compiler
def test_a_certificate_names_the_runtime_and_is_replayed_by_it(tmp_path: Path) -> None:
    zoo = make_zoo(tmp_path)
    ensemble = load("trivial", zoo=zoo, batch=64, device=DEVICE, runtime="compiled", allowed_imports=frozenset(ALLOWED))
    pixels = torch.full((1, *ensemble.input_shape), 200, dtype=torch.uint8)
    assert ensemble.noise is not None
    with Engine(ensemble, batch=64) as engine:
        [certificate] = certify(engine, pixels, Question(ensemble.noise, Fixed(n0=10, n=60)))
    assert certificate.provenance is not None
    assert certificate.provenance.versions["compiled"] == torch.__version__
    again = replay(certificate, pixels[0], zoo=zoo, allowed_imports=frozenset(ALLOWED))
    assert again.differences == ()
    assert again.certificate.provenance is not None
    assert "compiled" in again.certificate.provenance.versions


def test_a_network_that_cannot_be_compiled_runs_by_torch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no working C++ compiler was found")

    monkeypatch.setattr(Compiled, "forward", refuse)
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, device=DEVICE, runtime="compiled")
    assert form.kind == "folded"
    assert "no working C++ compiler was found" in caplog.text


def test_on_cuda_the_kernels_are_recorded_as_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr(torch, "compile", lambda network, **options: seen.update(options) or network)
    Compiled(nn.Identity(), torch.device("cuda:0"))
    assert seen == {"dynamic": False, "fullgraph": True, "options": {"triton.cudagraphs": True}}


def test_a_device_that_it_is_not_for_is_named() -> None:
    with pytest.raises(RuntimeNameError, match="compiled computes on cpu or cuda, and the device is mps"):
        optimiser_of("compiled", torch.device("mps"))
