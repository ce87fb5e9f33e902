"""The engines of a worker: an ensemble that waits for its endpoint does not hold up the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from models.addition import Addition, add
from smoothcert.engine.case import start
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from tests.support.engines import until
from tests.support.inference import SHAPE, Floats, ServedModel, logits_of, serving_model
from tests.support.zoo import ALLOWED, add_small
from workers.engines import Engines
from workers.holdings import Holdings
from workers.settings import WorkerSettings

NOISE = Gaussian(0.02)
QUESTION = Question(NOISE, Fixed(n=100, n0=20))
IMAGE = torch.full(SHAPE, 0.9)


@pytest.fixture
def model() -> Iterator[ServedModel]:
    with serving_model() as running:
        yield running


@pytest.fixture
def engines(model: ServedModel, tmp_path: Path) -> Iterator[Engines]:
    """The engines of two ensembles on the device, and of one whose member is the model."""
    settings = WorkerSettings(
        zoo=tmp_path / "zoo", allowed_imports=",".join(ALLOWED), remote_hosts="127.0.0.1", remote_patience_s=60
    )
    for name in ("first", "second"):
        add_small(settings.zoo, name, NOISE)
    addition = Addition(classes=("dark", "light"), input_shape=SHAPE, noise=NOISE)
    add("there", [], addition, zoo=settings.zoo, endpoints=[model.url], remote=settings.remote)
    with Engines(Holdings.load(settings, "cpu"), batch=64) as running:
        yield running


def held_up(model: ServedModel) -> tuple[threading.Event, threading.Event]:
    """Let the model answer nothing until the second event; the first one is set when it is asked."""
    reached, go_on = threading.Event(), threading.Event()

    def answer(images: Floats) -> Floats:
        reached.set()
        assert go_on.wait(60)
        return logits_of(images)

    model.answer = answer
    return reached, go_on


def test_ensembles_on_the_device_share_an_engine_and_an_endpoint_has_its_own(engines: Engines) -> None:
    assert engines.of("first") is engines.of("second")
    assert engines.of("there") is not engines.of("first")
    assert set(engines.paces) == {"first", "second", "there"}
    assert engines.of("gone") in (engines.of("first"), engines.of("there"))


def test_a_certification_ends_while_another_one_waits_for_its_endpoint(engines: Engines, model: ServedModel) -> None:
    """Mutant killed: all ensembles share one engine."""
    reached, go_on = held_up(model)
    try:
        waiting = start(engines.of("there"), IMAGE, QUESTION, seed="a")
        assert reached.wait(60)
        here = start(engines.of("second"), IMAGE, QUESTION, seed="a").handle
        here.result(timeout=60)
        assert not waiting.handle.future.done()
    finally:
        go_on.set()
    assert waiting.result().class_name == "light"


def test_an_engine_that_hangs_is_noticed_although_another_one_moves(engines: Engines, model: ServedModel) -> None:
    """Mutant killed: any movement of the process counts."""
    reached, go_on = held_up(model)
    try:
        waiting = start(engines.of("there"), IMAGE, QUESTION, seed="a")
        assert reached.wait(60)
        until(lambda: engines.stillness({"there"}, 1.0) >= 1)  # nothing moves from here on
        for looks in range(1, 4):
            before = engines.of("first").last_step
            start(engines.of("first"), IMAGE, QUESTION, seed=f"{looks}").result()
            until(lambda before=before: engines.of("first").last_step > before)
            assert engines.stillness({"there", "first"}, 1.0) >= 1 + looks
        assert engines.stillness({"first"}, 1.0) <= 1  # nothing waits for the one that hangs
    finally:
        go_on.set()
    waiting.result()
    assert engines.stillness({"there"}, 1.0) == 0  # it has moved


def test_closing_waits_for_no_endpoint(engines: Engines, model: ServedModel) -> None:
    reached, go_on = held_up(model)
    waiting = start(engines.of("there"), IMAGE, QUESTION, seed="a")
    assert reached.wait(60)
    closing = threading.Thread(target=engines.close)
    closing.start()
    go_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert waiting.handle.future.done()
