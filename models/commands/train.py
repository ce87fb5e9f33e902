"""`python -m models train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from models.architectures import ARCHITECTURES
from models.training.loop import PRESETS
from models.training.members import METHODS, Task, train_members


def train(
    data: Annotated[Path, typer.Option(help="CIFAR-10: torchvision's folder or a folder of sheets")],
    out: Annotated[Path, typer.Option(help="folder for weights and checkpoints")],
    seeds: Annotated[str, typer.Option(help="one seed for each member, like 0,1,2")] = "0",
    sigma: Annotated[float, typer.Option(help="standard deviation of the noise, in pixels of [0, 1]")] = 0.25,
    method: Annotated[str, typer.Option(help=", ".join(METHODS))] = "gaussian",
    architecture: Annotated[str, typer.Option(help=", ".join(ARCHITECTURES))] = "cifar-resnet20",
    preset: Annotated[str, typer.Option(help=", ".join(PRESETS))] = "paper",
    jobs: Annotated[int, typer.Option(help="members trained at the same time")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
) -> None:
    """Train members; a second call goes on from the last checkpoints."""
    out.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    tasks = [
        Task(data, out, architecture, method, sigma, preset, int(seed), threads, device) for seed in seeds.split(",")
    ]
    train_members(tasks, jobs=jobs)
