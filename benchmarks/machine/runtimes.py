"""What computes a ResNet20 fastest on this CPU: torch in several forms, onnxruntime, OpenVINO."""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.machine.engine import seconds_here
from benchmarks.result import Figure, Result
from models.resnet import resnet20
from smoothcert.engine.errors import PrecisionError
from smoothcert.engine.form import prepare
from smoothcert.extras import is_installed

SHAPE = (3, 32, 32)
BATCH, SLICE = 256, 64
"""The images of a round's batch, and of the slices in which the engine runs it."""
ROUNDS = 7
"""The rounds in which all contestants take turns; the median of the ratios within a round counts."""
OURS = "torch, folded, in slices: our form"
FASTER = 1.15
"""A runtime is worth a setting if it is faster by this factor."""
console = Console(stderr=True, highlight=False)

Forward = Callable[[Tensor], object]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=4, help=f"batches of {BATCH} images in each round")


def run(options: argparse.Namespace) -> Result:
    torch.manual_seed(0)
    network = resnet20().eval()
    batch = torch.rand(BATCH, *SHAPE)
    ready: dict[str, Forward] = {}
    start_up: dict[str, float] = {}
    missing: list[tuple[object, ...]] = []
    for name, make in CONTESTANTS.items():
        console.print(f"preparing {name} ...", style="dim")
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # exporters and compilers warn of their own means
                ready[name] = make(network)
                ready[name](batch)
        except (ImportError, PrecisionError) as error:
            missing.append((name, "", "", str(error)))
            continue
        start_up[name] = time.perf_counter() - began
    rates = measured(ready, batch, options.batches)
    gains = {name: median(a / b for a, b in zip(each, rates[OURS], strict=True)) for name, each in rates.items()}
    fastest = max((name for name in gains if name.startswith("OpenVINO, float32")), key=gains.__getitem__, default=None)
    return Result(
        name="runtimes",
        compares="the forward pass of a ResNet20 by what computes it",
        columns=("runtime", "images/s, median", "times ours, median of rounds", "start-up, s"),
        rows=[
            *((name, round(median(rates[name])), round(gains[name], 2), round(start_up[name], 1)) for name in ready),
            *missing,
        ],
        figures=[] if fastest is None else [Figure(f"{fastest} / our form", gains[fastest], at_least=FASTER)],
        notes=(
            f"Batches of {BATCH} images on {torch.get_num_threads()} threads, {ROUNDS} rounds of {options.batches} "
            f"batches; the contestants take turns in each round.",
            "All but eager run slices of the same shape as our form does. Start-up includes the first batch.",
        ),
    )


def measured(ready: dict[str, Forward], batch: Tensor, batches: int) -> dict[str, list[float]]:
    """The images per second of each contestant in each round."""
    rates: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(ROUNDS):
        for name, forward in ready.items():
            taken = seconds_here(lambda forward=forward: [forward(batch) for _ in range(batches)])  # type: ignore[misc]
            rates[name].append(batches * len(batch) / taken)
    return rates


def eager(network: nn.Module) -> Forward:
    return torch.inference_mode()(network)


def formed(runtime: str, precision: str) -> Callable[[nn.Module], Forward]:
    def make(network: nn.Module) -> Forward:
        return prepare(
            network, name="resnet20", classes=10, input_shape=SHAPE, batch=BATCH, runtime=runtime, precision=precision
        )

    return make


def onnxruntime(network: nn.Module) -> Forward:
    for package in ("onnx", "onnxruntime"):
        if not is_installed(package):
            raise ImportError(f"{package} is not installed")
    ort: Any = import_module("onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet20.onnx"
        torch.onnx.export(network, (torch.zeros(SLICE, *SHAPE),), file, dynamo=False)
        content = file.read_bytes()
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: [session.run(None, {name: rows.numpy()}) for rows in torch.split(batch, SLICE)]


CONTESTANTS: dict[str, Callable[[nn.Module], Forward]] = {
    OURS: formed("torch", "float32"),
    "torch, eager": eager,
    "torch, compiled and frozen": formed("compiled", "float32"),
    "onnxruntime, float32": onnxruntime,
    "OpenVINO, float32": formed("openvino", "float32"),
    "torch, folded, bfloat16": formed("torch", "bfloat16"),
    "OpenVINO, bfloat16": formed("openvino", "bfloat16"),
}
