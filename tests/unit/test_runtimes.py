"""Every runtime that converts a network gives the same classes, or torch runs in its place."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import torch
from torch import nn

from smoothcert.engine.ensemble import assemble
from smoothcert.engine.form import prepare, resize
from smoothcert.engine.onnxruntime import OnnxRuntime
from smoothcert.engine.openvino import OpenVino
from tests.support.branching import Branching
from tests.support.networks import tiny
from tests.support.resnets import images, resnet

SHAPE = (1, 4, 4)


class Converting(NamedTuple):
    """A runtime, the module that computes by it, and the method that converts a network."""

    runtime: str
    module: type[nn.Module]
    convert: str


RUNTIMES = (Converting("onnxruntime", OnnxRuntime, "_export"), Converting("openvino", OpenVino, "_compile"))


@pytest.fixture(params=RUNTIMES, ids=lambda each: each.runtime)
def converting(request: pytest.FixtureRequest) -> Converting:
    chosen: Converting = request.param
    pytest.importorskip(chosen.runtime, reason=f"the extra of the runtime {chosen.runtime} is not installed")
    return chosen


def test_it_gives_the_classes_of_the_plain_network_at_every_place_of_a_batch(converting: Converting) -> None:
    network = resnet()
    form = prepare(network, name="m", classes=10, input_shape=(3, 32, 32), runtime=converting.runtime)
    batch = images(70)
    logits = form(batch)
    with torch.no_grad():
        plain = network(batch)
    assert form.kind == converting.runtime
    assert isinstance(form.network, converting.module)
    assert torch.equal(logits.argmax(1), plain.argmax(1))
    assert torch.allclose(logits, plain, rtol=1e-3, atol=1e-4)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(0))
    assert torch.equal(form(batch[order]), logits[order])
    assert torch.equal(form(batch[69:]), logits[69:])


def test_a_resized_form_is_converted_for_its_own_slices(converting: Converting) -> None:
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=8, runtime=converting.runtime)
    smaller = resize(form, 3, name="m", classes=3)
    batch = torch.rand(8, *SHAPE)
    assert smaller.network is form.network
    assert torch.allclose(smaller(batch), form(batch), atol=1e-6)


def test_threads_may_call_it_at_once(converting: Converting) -> None:
    """Mutant killed: one request of OpenVINO, with its buffers, for all threads."""
    form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, batch=32, runtime=converting.runtime)
    batches = [torch.rand(32, *SHAPE) for _ in range(64)]
    expected = [form(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        assert all(map(torch.equal, threads.map(form, batches), expected))


def test_a_network_that_it_cannot_convert_runs_by_torch_and_the_certificate_says_torch(
    converting: Converting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("an operator that nobody knows")

    monkeypatch.setattr(converting.module, converting.convert, refuse)
    with caplog.at_level(logging.WARNING):
        ensemble = assemble([tiny(0)], classes="abc", input_shape=SHAPE, runtime=converting.runtime)
    assert ensemble.members[0].form.kind == "folded"
    assert ensemble.runtime == "torch"
    assert not {converting.runtime, "runtime"} & set(ensemble.arithmetic)
    assert "an operator that nobody knows" in caplog.text


def test_one_whose_pixels_choose_a_branch_is_not_used(converting: Converting) -> None:
    """Mutant killed: tracing keeps the branch that its example took, and no probe takes the other one."""
    form = prepare(Branching(), name="m", classes=3, input_shape=SHAPE, runtime=converting.runtime)
    assert form.kind == "plain"
    bright = torch.full((4, *SHAPE), 1.5)
    assert torch.equal(form(bright), Branching()(bright))


def test_one_that_mixes_rows_is_not_used(
    converting: Converting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant killed: comparing a form of another runtime with the plain one only on the probe itself."""
    inner = converting.module.forward
    monkeypatch.setattr(converting.module, "forward", lambda self, x: inner(self, x) + 9 * x.mean())
    with caplog.at_level(logging.WARNING):
        form = prepare(tiny(0), name="m", classes=3, input_shape=SHAPE, runtime=converting.runtime)
    assert form.kind == "folded"
    assert "when other images are beside it" in caplog.text
