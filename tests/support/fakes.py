"""The whole path of the engine on a GPU that is not there: `python -m tests.support.fakes`.

Fake tensors have a device and a shape and no values, and refuse to mix devices as a GPU does. They are on "cuda" where
torch is built with CUDA. Elsewhere torch cannot even index them there, so they are on a device that it makes up. That
concerns the whole process, which is why this is a program of its own. It ends with an error where a tensor is on the
wrong device.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from smoothcert.engine import poll
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.form import Form
from smoothcert.engine.identity import Identity
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.poll import UNDECIDED
from smoothcert.engine.sampling import BLOCK, BlockSource
from tests.support.engines import NOISE, SHAPE, draws

MODE = FakeTensorMode()


class FakeGpu:
    """Answers for the GPU: every third row is undecided until all members were asked."""

    depth = 2

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.last = False

    def fetch(self, classes: Tensor) -> FakeTransfer:
        if classes.device.type != self._device.type:
            raise AssertionError(f"the classes are on {classes.device}")
        return FakeTransfer(len(classes), last=self.last)

    def place(self, values: npt.NDArray[np.int64]) -> Tensor:
        rows = MODE.from_tensor(torch.from_numpy(values))
        return rows.to(self._device)


class FakeTransfer:
    def __init__(self, rows: int, *, last: bool) -> None:
        self._rows, self._last = rows, last

    def classes(self) -> npt.NDArray[np.int64]:
        found = np.zeros(self._rows, np.int64)
        found[::3] = 0 if self._last else UNDECIDED
        return found


def fake_ensemble(device: torch.device, voting: str, consensus: int | None) -> Ensemble:
    """Three members, made without the examination, which has to read logits."""
    members = []
    for seed in range(3):
        with device:
            network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4))
        form = Form(network.eval(), "folded", (32, *SHAPE), device, torch.float32)
        members.append(Member(f"m{seed}", Identity("test", f"{seed:064}"), network, form))
    return Ensemble("fake", tuple(members), ("a", "b", "c", "d"), SHAPE, voting=voting, consensus=consensus)


def drive(device: torch.device, voting: str, consensus: int | None, *, mutant: bool) -> None:
    steps, go_on, gpu = Engine._step, Engine._go_on, FakeGpu(device)

    def last(engine: Engine, *rows: Any) -> None:
        gpu.last = True
        go_on(engine, *rows)
        gpu.last = False

    def faking(engine: Engine, lane: Any) -> None:
        with MODE:  # the modes of torch belong to a thread
            steps(engine, lane)

    def normal(source: BlockSource, _: int, shape: tuple[int, ...]) -> Tensor:
        where = "cpu" if mutant else source.device
        return torch.randn((BLOCK, *shape), device=where)  # a generator of a GPU needs one

    real = Pixels.of(torch.zeros(SHAPE), SHAPE)  # reads every value
    pixels = replace(real, stored=MODE.from_tensor(real.stored))
    with (
        mock.patch.object(Engine, "_step", faking),
        mock.patch.object(Engine, "_go_on", last),
        mock.patch.object(BlockSource, "normal", normal),
        mock.patch.object(Ensemble, "arithmetic", {}),
        mock.patch.object(poll, "exits", return_value=(2,)),  # reads numbers, once for each ensemble
        mock.patch.object(Member, "finite", True),
    ):
        with MODE:
            made = fake_ensemble(device, voting, consensus)
            assert made.stages == (2, 3)
            engine = Engine(made, batch=32, device=gpu)
            handle = engine.submit(draws(100, 60), pixels, NOISE, "s")
        with engine:
            assert handle.result(60).evaluations > 320, "further members were asked"
    print(f"{voting}-{consensus}")


if __name__ == "__main__":
    name = "cuda"
    if not torch.backends.cuda.is_built():
        name = "gpu"
        _setup_privateuseone_for_python_backend(name)
    for view in (("soft", 2), ("softmax", None), ("hard", 2)):
        drive(torch.device(name, 0), *view, mutant="mutant" in sys.argv)
