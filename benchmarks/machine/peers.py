"""The same weights, images and n through our engine, IBM's ART and a transcription of Cohen's loop.

ART is optional: `pip install --constraint constraints.txt --group peers`. Each contestant runs in a process of its own,
so that the peak memory is that of one contestant alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from torch import nn

from benchmarks.result import Figure, Result
from models.resnet import resnet20
from smoothcert.bounds import lower_bound
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question

SIGMA, ALPHA, BATCH, N0 = 0.25, 0.001, 256, 100
CLASSES = tuple("0123456789")
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=2_000, help="samples per image where time is compared")
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--memory-n", type=int, default=100_000, help="samples of one image where memory is compared")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> Result:
    if options.contestant:
        print(json.dumps(contest(options)))
        raise SystemExit(0)
    rows: list[tuple[object, ...]] = []
    seconds: dict[str, float] = {}
    megabytes: dict[str, float] = {}
    for name in CONTESTANTS:
        console.print(f"running {name} ...", style="dim")
        timed = child(name, options.n, options.images, options)
        if timed is None:
            rows.append((name, "not installed", "", "", ""))
            continue
        small = child(name, 1_000, 1, options, linear=True)
        large = child(name, options.memory_n, 1, options, linear=True)
        assert small is not None
        assert large is not None
        seconds[name] = timed["seconds"] / (options.images * (options.n + N0))
        megabytes[name] = large["megabytes"] - small["megabytes"]
        rows.append(
            (
                name,
                round(1000 * seconds[name], 3),
                round(seconds[name] / seconds["smoothcert"], 2),
                round(large["megabytes"]),
                round(megabytes[name]),
            )
        )
    figures = [
        Figure(f"{name}: their time per sample / ours", seconds[name] / seconds["smoothcert"])
        for name in seconds
        if name != "smoothcert"
    ]
    growth = Figure(
        f"smoothcert: memory grown from n = 1,000 to {options.memory_n:,}, MB", megabytes["smoothcert"], at_most=20
    )
    return Result(
        name="peers",
        compares=f"ResNet20, {options.images} images, n0 = {N0}, n = {options.n:,}, batch {BATCH}, on {options.device}",
        columns=(
            "who",
            "ms per sample",
            "times ours",
            f"peak MB at n = {options.memory_n:,}",
            "MB grown since n = 1,000",
        ),
        rows=rows,
        figures=[*figures, growth],
        notes=(
            "Memory is measured on a linear classifier of the same images: only the memory of the samples can grow.",
        ),
    )


def child(
    name: str, n: int, images: int, options: argparse.Namespace, *, linear: bool = False
) -> dict[str, float] | None:
    """Run one contestant in its own process; None if it is not installed."""
    command = [sys.executable, "-m", "benchmarks", "peers", "--contestant", name + ("/linear" if linear else "")]
    command += ["--n", str(n), "--images", str(images), "--device", options.device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        if "No module named 'art'" in done.stderr:
            return None
        raise SystemExit(f"{name} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def contest(options: argparse.Namespace) -> dict[str, float]:
    """The time and the peak memory of one contestant, measured in this process."""
    name, _, linear = options.contestant.partition("/")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)) if linear else resnet20()
    images = np.random.default_rng(0).random((options.images, 3, 32, 32), dtype=np.float32)
    prepared = CONTESTANTS[name](network.eval(), options)
    began = time.perf_counter()
    prepared(images, options.n)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


Certifier = Callable[[np.ndarray, int], object]
"""Certifies images [N, C, H, W] with n samples each."""


def ours(network: nn.Module, options: argparse.Namespace) -> Certifier:
    """Our engine, with all images at once."""
    ensemble = assemble([network], classes=CLASSES, input_shape=(3, 32, 32), batch=BATCH, device=options.device)

    def certified(images: np.ndarray, n: int) -> object:
        with Engine(ensemble, batch=BATCH) as engine:
            return certify(engine, torch.from_numpy(images), Question(Gaussian(SIGMA), Fixed(n=n)))

    return certified


def cohen(network: nn.Module, options: argparse.Namespace) -> Certifier:
    """Cohen's loop, one image at a time: repeat it, add noise, run the eager network, count on the host."""
    network.to(options.device)

    @torch.no_grad()
    def counts(image: torch.Tensor, n: int) -> np.ndarray:
        found = np.zeros(10, dtype=int)
        for start in range(0, n, BATCH):
            batch = image.repeat((min(BATCH, n - start), 1, 1, 1))
            noise = torch.randn_like(batch) * SIGMA
            predictions = network(batch + noise).argmax(1)
            for index in predictions.cpu().numpy():
                found[index] += 1
        return found

    def certified(images: np.ndarray, n: int) -> object:
        radii = []
        for image in torch.from_numpy(images).to(options.device):
            top = int(counts(image, N0).argmax())
            p_lower = lower_bound(int(counts(image, n)[top]), n, ALPHA)
            radii.append(Gaussian(SIGMA).radius(p_lower) if p_lower > 0.5 else None)
        return radii

    return certified


def art(network: nn.Module, options: argparse.Namespace) -> Certifier:
    """IBM's adversarial-robustness-toolbox."""
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    smoothed = PyTorchRandomizedSmoothing(
        model=network,
        loss=nn.CrossEntropyLoss(),
        input_shape=(3, 32, 32),
        nb_classes=10,
        device_type="cpu" if options.device == "cpu" else "gpu",
        sample_size=N0,
        scale=SIGMA,
        alpha=ALPHA,
    )
    return lambda images, n: smoothed.certify(images, n=n, batch_size=BATCH)


CONTESTANTS: dict[str, Callable[[nn.Module, argparse.Namespace], Certifier]] = {
    "smoothcert": ours,
    "Cohen's loop": cohen,
    "ART": art,
}
