"""A fault of one certification, of a network or of the device does not harm other certifications."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import ClosedError, DeviceError
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Procedure
from tests.support.engines import DEVICE, NOISE, SHAPE, Patches, counts_by_hand, draws, endless, ensemble, images, until
from tests.support.queued import Queue


@pytest.fixture(scope="module")
def three() -> Ensemble:
    return ensemble(3, consensus=2)


def test_a_procedure_that_fails_ends_alone(three: Ensemble) -> None:
    def failing() -> Procedure:
        yield 32
        raise KeyError("my own fault")

    with Engine(three, batch=32) as engine:
        bad, good = (
            engine.submit(failing(), images(1)[0], NOISE, "s"),
            engine.submit(draws(99), images(1)[0], NOISE, "s"),
        )
        with pytest.raises(KeyError, match="my own fault"):
            bad.result(30)
        assert sum(good.result(30).verdict[0]) == 99  # type: ignore[index]


@pytest.mark.parametrize("wish", [0, -5, None, 3.5, True])
def test_a_wish_that_makes_no_sense_harms_nobody_else(three: Ensemble, wish: object) -> None:
    def odd() -> Procedure:
        yield 32
        yield wish  # type: ignore[misc]

    with Engine(three, batch=32) as engine:
        good = engine.submit(draws(640), images(1)[0], NOISE, "s")
        bad = engine.submit(odd(), images(1)[0], NOISE, "s")
        with pytest.raises(DomainError, match=str(wish)):
            bad.result(30)
        assert good.result(30).verdict


def test_a_procedure_that_asks_for_nothing_has_its_verdict_at_once(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        assert engine.submit(draws(), images(1)[0], NOISE, "s").result(30).verdict == []


def test_a_procedure_that_wants_to_exit_ends_alone(three: Ensemble) -> None:
    def leaving() -> Procedure:
        yield 32
        raise SystemExit

    with Engine(three, batch=32) as engine:
        good, bad = (engine.submit(p, images(1)[0], NOISE, "s") for p in (draws(640), leaving()))
        with pytest.raises(SystemExit):
            bad.result(30)
        assert good.result(30).verdict


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whatever_ends_the_owner_thread_nobody_is_left_waiting(three: Ensemble) -> None:
    def leave(_: object) -> None:
        raise SystemExit

    engine = Engine(three, batch=32)
    other = engine.submit(endless(), images(1)[0], NOISE, "s")
    engine.submit(draws(640), images(1)[0], NOISE, "s").future.add_done_callback(leave)
    with pytest.raises(ClosedError):
        other.result(30)
    engine.close()


def test_an_ensemble_that_cannot_be_made_ready_fails_alone(three: Ensemble, delicate: Ensemble) -> None:
    with Engine(three, batch=16) as engine:
        Delicate.broken = True
        bad = engine.submit(draws(64), images(1)[0], NOISE, "s", ensemble=delicate)
        with pytest.raises(Exception, match="a fault in the device"):
            bad.result(30)
        assert engine.submit(draws(64), images(1)[0], NOISE, "s").result(30).verdict


def test_an_idle_engine_keeps_no_lanes(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        for voting in ("soft", "softmax", "hard"):
            view = three.with_(voting=voting)
            engine.submit(draws(64), images(1)[0], NOISE, "s", ensemble=view).result(30)
        until(lambda: not engine._lanes and not engine._turns)


def test_networks_that_differ_only_in_code_do_not_share_batches() -> None:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 4))
    second = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Sigmoid(), nn.Linear(8, 4))
    second.load_state_dict(first.state_dict())
    both = [
        assemble([net], classes=("a", "b", "c", "d"), input_shape=SHAPE, batch=32, device=DEVICE)
        for net in (first, second)
    ]
    with Engine(both[0], batch=32) as engine:
        handles = [engine.submit(draws(99), images(1)[0], NOISE, "s", ensemble=each) for each in both]
        for each, handle in zip(both, handles, strict=True):
            assert handle.result(30).verdict == counts_by_hand(each, images(1)[0], "s", 0, [99])


@pytest.mark.parametrize("batch", [0, -1, 2.5])
def test_a_batch_must_hold_something(three: Ensemble, batch: Any) -> None:
    with pytest.raises(DomainError, match=str(batch)):
        Engine(three, batch=batch)


def test_an_ensemble_on_another_device_is_refused(three: Ensemble) -> None:
    elsewhere = replace(
        three, members=tuple(replace(m, form=replace(m.form, device=torch.device("meta"))) for m in three.members)
    )
    with Engine(three, batch=32) as engine, pytest.raises(DeviceError, match="meta"):
        engine.submit(draws(9), images(1)[0], NOISE, "s", ensemble=elsewhere)


class Delicate(Patches):
    """A network that fails as its class variables say: out of memory above a size, or always."""

    most = 10**9
    broken = False
    limit = math.inf

    def forward(self, x: Tensor) -> Tensor:
        if x.abs().max() > type(self).limit:
            raise ValueError("too bright")
        if type(self).broken:
            raise RuntimeError("a fault in the device")
        if len(x) > type(self).most:
            raise torch.OutOfMemoryError("tried to allocate too much")
        return super().forward(x)


@pytest.fixture
def delicate() -> Iterator[Ensemble]:
    networks = [Delicate(seed) for seed in range(3)]
    yield assemble(
        networks,
        classes=("a", "b", "c", "d"),
        input_shape=SHAPE,
        consensus=2,
        batch=32,
        device=DEVICE,
        optimise=False,
        name="delicate",
    )
    Delicate.most, Delicate.broken, Delicate.limit = 10**9, False, math.inf


def test_out_of_memory_halves_the_batch_and_goes_on(delicate: Ensemble) -> None:
    with Engine(delicate, batch=32) as engine:
        before = engine.submit(draws(64), images(1)[0], NOISE, "s").result(30)
        assert [(shape.start, shape.stop, shape.rows) for shape in before.shapes] == [(0, 64, 32)]
        first_half = engine.submit(draws(64), images(1)[0], NOISE, "s")
        checkpoint = first_half.result(30) and first_half.checkpoint
        assert checkpoint is not None
        Delicate.most = 9
        resumed = engine.submit(draws(64, 64), images(1)[0], NOISE, "s", resume=checkpoint).result(30)
    assert [(shape.start, shape.stop, shape.rows) for shape in resumed.shapes] == [(0, 64, 32), (64, 128, 8)]
    assert [shape.rest_rows for shape in resumed.shapes] == [32, 8]
    Delicate.most = 10**9
    assert resumed.verdict == counts_by_hand(delicate, images(1)[0], "s", 0, [64, 64])


def test_memory_that_is_never_enough_is_an_error(delicate: Ensemble) -> None:
    Delicate.most = 0
    with Engine(delicate, batch=32) as engine, pytest.raises(torch.OutOfMemoryError):
        engine.submit(draws(64), images(1)[0], NOISE, "s").result(30)


def test_memory_that_is_never_enough_for_one_leaves_the_next_its_full_batches(delicate: Ensemble) -> None:
    with Engine(delicate, batch=32) as engine:
        Delicate.most = 0
        with pytest.raises(torch.OutOfMemoryError):
            engine.submit(draws(64), images(1)[0], NOISE, "s").result(30)
        Delicate.most = 10**9
        after = engine.submit(draws(64), images(1)[0], NOISE, "s").result(30)
    assert [(shape.start, shape.stop, shape.rows) for shape in after.shapes] == [(0, 64, 32)]


@pytest.mark.parametrize("device", [None, Queue()], ids=["own device", "queue"])
@pytest.mark.parametrize("neighbours", [1, 2, 9])
def test_an_image_that_breaks_the_network_fails_alone(
    delicate: Ensemble, neighbours: int, device: Queue | None
) -> None:
    """Mutant killed: a batch is drawn over one that is still under way, after the batch between them failed."""
    Delicate.limit = 50.0
    with Engine(delicate, batch=32, device=device) as engine:
        blind = torch.full(SHAPE, 1.0)
        good = [engine.submit(draws(64, 300), each, NOISE, "s", index=i) for i, each in enumerate(images(neighbours))]
        until(lambda: good[0].progress.samples > 0)
        bad = engine.submit(draws(64), blind, Gaussian(100.0), "s")
        more = engine.submit(draws(64), images(1)[0], NOISE, "t")
        with pytest.raises(ValueError, match="too bright"):
            bad.result(30)
        found = [each.result(30).verdict for each in good]
        assert more.result(30).verdict == counts_by_hand(delicate, images(1)[0], "t", 0, [64])
    for i, each in enumerate(images(neighbours)):
        assert found[i] == counts_by_hand(delicate, each, "s", i, [64, 300])


def test_a_fault_in_the_device_fails_its_certifications_and_the_engine_goes_on(delicate: Ensemble) -> None:
    with Engine(delicate, batch=32) as engine:
        Delicate.broken = True
        with pytest.raises(RuntimeError, match="a fault in the device"):
            engine.submit(draws(64), images(1)[0], NOISE, "s").result(30)
        Delicate.broken = False
        assert engine.submit(draws(64), images(1)[0], NOISE, "s").result(30).verdict
