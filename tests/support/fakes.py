"""The whole path of the engine on a GPU that is not there: `python -m tests.support.fakes`.

Fake tensors have a device and a shape and no values, and refuse to mix devices as a GPU does. They are on "cuda" if
torch is built with CUDA. Otherwise torch cannot even index them there, so they are on a device that it makes up. That
affects the whole process, so this is a separate program. It ends with an error if a tensor is on the wrong device. With
the argument `mutant`, noise stays on the CPU, and the program prints which noises are caught.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from smoothcert.engine import pixels as pixels_module
from smoothcert.engine import poll
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.form import Form
from smoothcert.engine.identity import Identity
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.poll import UNDECIDED
from smoothcert.engine.sampling import BLOCK, BlockSource
from smoothcert.noise import Gaussian, Noise, Replacement, RoundedGaussian, Uniform, rounded_gaussian, uniform
from tests.support.engines import SHAPE, draws

MODE = FakeTensorMode()
VOTES = (("soft", 2), ("softmax", None), ("hard", 2))
NOISES = (Gaussian(0.25), RoundedGaussian(0.25), Uniform(1.0), Replacement(0.8, 2))


class FakeGpu:
    """The answers of the GPU: every third row is undecided until all members were asked."""

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


def drive(device: torch.device, noise: Noise, voting: str, consensus: int | None, *, mutant: bool) -> None:
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

    def place(source: BlockSource, values: npt.NDArray[Any]) -> Tensor:
        drawn = MODE.from_tensor(torch.from_numpy(values))  # pinned memory needs a GPU
        return drawn if mutant else drawn.to(source.device)

    def levels(pixels: Tensor) -> Tensor:
        return pixels.mul(255).round_().short()  # the check is left out, because it reads every value

    dtype = torch.uint8 if noise.eight_bit else torch.float32
    real = Pixels.of(torch.zeros(SHAPE, dtype=dtype), SHAPE)  # this reads every value
    pixels = replace(real, stored=MODE.from_tensor(real.stored))
    with ExitStack() as patched:
        for owner, name, other in (
            (Engine, "_step", faking),
            (Engine, "_go_on", last),
            (BlockSource, "normal", normal),
            (BlockSource, "place", place),
            (rounded_gaussian, "levels", levels),
            (uniform, "levels", levels),
            (pixels_module, "GREYS", MODE.from_tensor(pixels_module.GREYS)),
            (Ensemble, "arithmetic", {}),
            (poll, "exits", lambda bounds: (2,)),  # the original reads numbers, once for each ensemble
            (Member, "finite", True),
        ):
            patched.enter_context(mock.patch.object(owner, name, other))
        with MODE:
            made = fake_ensemble(device, voting, consensus)
            assert made.stages == (2, 3)
            engine = Engine(made, batch=32, device=gpu)
            handle = engine.submit(draws(100, 60), pixels, noise, "s")
        with engine:
            assert handle.result(60).evaluations > 320, "further members were asked"


def is_caught(device: torch.device, noise: Noise) -> bool:
    try:
        drive(device, noise, "soft", 2, mutant=True)
    except RuntimeError as error:
        return "found at least two devices" in str(error)
    return False


if __name__ == "__main__":
    name = "cuda"
    if not torch.backends.cuda.is_built():
        name = "gpu"
        _setup_privateuseone_for_python_backend(name)
    place = torch.device(name, 0)
    if "mutant" in sys.argv:
        print(*(noise.name for noise in NOISES if is_caught(place, noise)))
    else:
        first, *others = NOISES
        for noise, (voting, consensus) in [*((first, vote) for vote in VOTES), *((each, VOTES[0]) for each in others)]:
            drive(place, noise, voting, consensus, mutant=False)
            print(f"{noise.name}-{voting}-{consensus}")
