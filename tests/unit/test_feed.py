"""A device with its own queue gets its next batch before the last one is read, and the counts stay the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine.device import Host, device_of
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.errors import RunCanceledError
from tests.support.engines import DEVICE, NOISE, SHAPE, counts_by_hand, draws, endless, ensemble, images, until
from tests.support.queued import Queue

SIZES = [100, 32, 64, 7, 500, 1]


@pytest.mark.parametrize("consensus", [None, 2])
def test_a_batch_is_enqueued_before_the_last_is_read_and_each_is_read_once(consensus: int | None) -> None:
    """Mutant killed: reading each batch before the next is enqueued."""
    queue = Queue()
    with Engine(ensemble(3, consensus), batch=32, device=queue) as engine:
        for handle in [engine.submit(draws(320), image, NOISE, "s") for image in images(4)]:
            handle.result(30)
    reads = [number for event, number in queue.log if event == "read"]
    assert reads == list(range(len(reads)))  # they are in order, and each comes once: there is no other synchronisation
    in_time = sum(("enqueue", number + 1) in queue.log[: queue.log.index(("read", number))] for number in reads)
    assert in_time >= 0.9 * (len(reads) - 1)


def test_on_the_cpu_each_batch_is_counted_at_once() -> None:
    assert isinstance(device_of(torch.device("cpu")), Host)
    assert Host.depth == 1


@pytest.mark.parametrize("consensus", [None, 1, 2])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_counts_are_those_of_the_definition(consensus: int | None, voting: str) -> None:
    """Mutant killed: one buffer for both batches, into which noise is drawn while undecided rows are in it."""
    view = ensemble(3, consensus).with_(voting=voting)
    with Engine(view, batch=32, device=Queue()) as engine:
        handles = [engine.submit(draws(*SIZES), image, NOISE, "s", index=i) for i, image in enumerate(images(5))]
        other = engine.submit(draws(*SIZES), images(1)[0], NOISE, "t", ensemble=view.with_(voting="softmax"))
        for i, (image, handle) in enumerate(zip(images(5), handles, strict=True)):
            assert handle.result(60).verdict == counts_by_hand(view, image, "s", i, SIZES)
        assert other.result(60).verdict == counts_by_hand(view.with_(voting="softmax"), images(1)[0], "t", 0, SIZES)


class Dim(nn.Module):
    """A network that gives no finite logit for dark images."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(1, 2, 3))
        return torch.stack([torch.where(mean > 0.5, mean, torch.nan), -mean], dim=1)


def test_a_transfer_that_fails_ends_the_run_at_fault_and_no_other() -> None:
    """The classes of a dark image cannot be read; it is found by halving, and the others go on from their counts."""
    dim = assemble([Dim()], classes=("a", "b"), input_shape=SHAPE, batch=32, device=DEVICE)
    with Engine(dim, batch=32, device=Queue(lambda classes: bool((classes == 2).any()))) as engine:
        good = [engine.submit(draws(320, 320), torch.full(SHAPE, 0.9), NOISE, "s", index=i) for i in range(3)]
        bad = engine.submit(draws(320, 320), torch.full(SHAPE, 0.1), NOISE, "s")
        with pytest.raises(RuntimeError, match="a fault in the device"):
            bad.result(60)
        assert [handle.result(60).verdict for handle in good] == [[(320, 0, 0)] * 2] * 3


def test_cancel_ends_a_run_whose_batches_are_on_their_way() -> None:
    with Engine(ensemble(3, 2), batch=32, device=Queue()) as engine:
        handle, other = (engine.submit(endless(), image, NOISE, "s") for image in images(2))
        until(lambda: handle.progress.samples > 0)
        handle.cancel()
        with pytest.raises(RunCanceledError):
            handle.result(30)
        before = other.progress.samples
        until(lambda: other.progress.samples > before + 320)


def test_every_tensor_of_the_engine_is_on_the_device() -> None:
    """Fake tensors, which have a device and no values, show this. Mutant killed: noise that stays on the CPU."""
    command = [sys.executable, "-m", "tests.support.fakes"]
    right, wrong = (
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=120) for more in ([], ["mutant"])
    )
    assert right.returncode == 0, right.stderr
    noises = ["gaussian", "rounded-gaussian", "uniform", "replacement"]
    votes = [f"gaussian-{vote}" for vote in ("soft-2", "softmax-None", "hard-2")]
    assert right.stdout.split() == [*votes, *(f"{noise}-soft-2" for noise in noises[1:])]
    assert wrong.stdout.split() == noises, wrong.stderr
