"""Images per second of the training loop: float32, bfloat16 inside the layers, and torch.compile."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

from benchmarks.result import Figure, Result
from models.resnet import resnet20
from models.training.augmentation import Augmentation
from models.training.loop import PRESETS
from smoothcert.engine.precision import dtype_of
from smoothcert.noise import Gaussian

FORMS = list(itertools.product(("float32", "bfloat16"), (False, True)))
"""Precision, and whether the network is compiled."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="rounds, in which the forms take turns")
    parser.add_argument("--steps", type=int, default=10, help="steps of each form in a round")


def run(options: argparse.Namespace) -> Result:
    steps = {form: training_step(*form) for form in FORMS}
    warm = {form: seconds(step, 2) for form, step in steps.items()}
    rounds = [{form: seconds(step, options.steps) for form, step in steps.items()} for _ in range(options.rounds)]
    images = options.steps * PRESETS["one-cycle"].batch
    gain = {form: median(each["float32", False] / each[form] for each in rounds) for form in FORMS}
    rows = [
        (precision, "yes" if compiled else "no", images / median(each[precision, compiled] for each in rounds),
         gain[precision, compiled], warm[precision, compiled])
        for precision, compiled in FORMS
    ]  # fmt: skip
    return Result(
        name="training",
        compares="a step of Gaussian training of ResNet20 by the form of the network",
        columns=("precision", "compiled", "images/s, median", "times float32, median of rounds", "first two steps, s"),
        rows=rows,
        figures=[Figure("bfloat16 over float32, median of rounds", gain["bfloat16", False], at_least=1.2)],
        notes=(
            f"The preset one-cycle (batch {PRESETS['one-cycle'].batch}), {options.rounds} rounds of {options.steps} "
            "steps; the forms take turns in each round. A CPU without bfloat16 instructions gains nothing.",
        ),
    )


def training_step(precision: str, compiled: bool) -> Callable[[], None]:
    """One step on a batch that is always the same: noise, loss, gradient, update."""
    network = resnet20().train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    called: nn.Module = torch.compile(network) if compiled else network  # type: ignore[assignment]
    batch = PRESETS["one-cycle"].batch
    x = torch.rand(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.arange(batch) % 10
    method = Augmentation(Gaussian(0.25))

    def step() -> None:
        with torch.autocast("cpu", dtype_of(precision), enabled=precision != "float32"):
            loss, _ = method.loss(called, x, y, epoch=0)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def seconds(step: Callable[[], None], steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - began
