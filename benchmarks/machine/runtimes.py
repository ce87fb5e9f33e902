"""What computes a ResNet20 fastest on a device: torch in several forms, onnxruntime, OpenVINO."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.machine.engine import seconds_here, synchronise
from benchmarks.result import Figure, Result
from models.resnet import resnet20
from smoothcert.engine.errors import PrecisionError, RuntimeNameError
from smoothcert.engine.form import prepare

SHAPE = (3, 32, 32)
BATCH = 256
"""The images of a batch."""
ROUNDS = 7
"""The rounds in which all contestants take turns; the median of the ratios within a round counts."""
OURS = "torch, folded, in slices: our form"
CHOSEN = "onnxruntime, float32"
"""The runtime whose gain is judged: it was the fastest one in float32 when the runtimes were compared."""
FASTER = 1.15
"""A runtime is worth a setting if it is faster by this factor."""
console = Console(stderr=True, highlight=False)

Forward = Callable[[Tensor], object]
Contestant = Callable[[nn.Module, str], Forward]
"""Makes what is timed of a network, on a device."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=4, help=f"batches of {BATCH} images in each round")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")


def run(options: argparse.Namespace) -> Result:
    torch.manual_seed(0)
    device = torch.device(options.device)
    network = resnet20().eval().to(device)
    batch = torch.rand(BATCH, *SHAPE, device=device)
    ready: dict[str, Forward] = {}
    start_up: dict[str, float] = {}
    missing: list[tuple[object, ...]] = []
    for name, make in CONTESTANTS.items():
        console.print(f"preparing {name} ...", style="dim")
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # exporters and compilers warn of their own means
                ready[name] = make(network, options.device)
                ready[name](batch)
                synchronise(device)
        except (ImportError, PrecisionError, RuntimeNameError) as error:
            ready.pop(name, None)
            missing.append((name, "", "", str(error)))
            continue
        start_up[name] = time.perf_counter() - began
    rates = measured(ready, batch, options.batches)
    gains = {name: median(a / b for a, b in zip(each, rates[OURS], strict=True)) for name, each in rates.items()}
    return Result(
        name="runtimes",
        compares="the forward pass of a ResNet20, by runtime",
        columns=("runtime", "images/s, median", "times ours, median of rounds", "start-up, s"),
        rows=[
            *(
                (name, round(median(rates[name])), three_digits(gains[name]), round(start_up[name], 1))
                for name in ready
            ),
            *missing,
        ],
        figures=[
            Figure(f"{name} / our form", three_digits(gains[name]), at_least=FASTER) for name in gains if name == CHOSEN
        ],
        notes=(
            f"Batches of {BATCH} images on {options.device}, with {torch.get_num_threads()} threads; {ROUNDS} rounds "
            f"of {options.batches} batches, in each of which the contestants take turns.",
            "All but eager run slices of the same shape as our form does. Start-up includes the first batch.",
        ),
    )


def measured(ready: dict[str, Forward], batch: Tensor, batches: int) -> dict[str, list[float]]:
    """The images per second of each contestant in each round."""
    rates: dict[str, list[float]] = {name: [] for name in ready}

    def forward_passes(forward: Forward) -> None:
        for _ in range(batches):
            forward(batch)
        synchronise(batch.device)

    for _ in range(ROUNDS):
        for name, forward in ready.items():
            rates[name].append(batches * len(batch) / seconds_here(partial(forward_passes, forward)))
    return rates


def three_digits(gain: float) -> float:
    return float(f"{gain:.3g}")


def eager(network: nn.Module, _: str) -> Forward:
    return torch.inference_mode()(network)


def formed(runtime: str, precision: str) -> Contestant:
    def make(network: nn.Module, device: str) -> Forward:
        form = prepare(
            network,
            name="resnet20",
            classes=10,
            input_shape=SHAPE,
            batch=BATCH,
            device=device,
            runtime=runtime,
            precision=precision,
        )
        if runtime not in ("torch", *form.versions):
            raise RuntimeNameError(f"torch runs it in place of {runtime}, as a warning says")
        return form

    return make


CONTESTANTS: dict[str, Contestant] = {
    OURS: formed("torch", "float32"),
    "torch, eager": eager,
    "torch, compiled": formed("compiled", "float32"),
    CHOSEN: formed("onnxruntime", "float32"),
    "OpenVINO, float32": formed("openvino", "float32"),
    "torch, folded, bfloat16": formed("torch", "bfloat16"),
    "OpenVINO, bfloat16": formed("openvino", "bfloat16"),
}
