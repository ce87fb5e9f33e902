"""`python -m models train`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from models.addition import Addition, add, require_free
from models.architectures import ARCHITECTURES
from models.data import load_cifar10
from models.errors import TrainingError
from models.registry import ZOO, writing
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
    resume: Annotated[bool, typer.Option(help="go on from what --out holds, or refuse to")] = True,
    ensemble: Annotated[str | None, typer.Option(help="make an ensemble of this name of the trained members")] = None,
    zoo: Annotated[Path, typer.Option(help="folder of all ensembles")] = ZOO,
) -> None:
    """Train members; a second call goes on from the last checkpoints."""
    for name, value, known in (("method", method, METHODS), ("preset", preset, PRESETS)):
        if value not in known:
            raise TrainingError(f"--{name} {value!r} is none of {', '.join(known)}")
    if not (math.isfinite(sigma) and sigma >= 0) or jobs < 1:
        raise TrainingError(f"--sigma {sigma} --jobs {jobs}: sigma must be a finite number >= 0, jobs at least 1")
    if ensemble:
        require_free(ensemble, zoo)  # before the hours of training
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    tasks = [Task(data, out, architecture, method, sigma, preset, seed, threads, device) for seed in _seeds(seeds)]
    if not resume:
        _require_new(tasks)
    train_members(tasks, jobs=jobs)
    if ensemble:
        made = Addition(classes=load_cifar10(data, train=False).classes)
        added = add(ensemble, [task.weights for task in tasks], made, zoo=zoo)
        typer.echo(f"{ensemble}: {len(added.members)} members, digest {added.digest}")


def _require_new(tasks: Sequence[Task]) -> None:
    """Hours of training are never overwritten."""
    for file in (file for task in tasks for file in (task.weights, task.checkpoint)):
        if file.exists():
            raise TrainingError(f"{file} exists: go on from it with --resume, or choose another --out")


def _seeds(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise TrainingError(f"--seeds {text!r} is not like 0,1,2")
    seeds = [int(seed) for seed in text.split(",")]
    if len(set(seeds)) != len(seeds):
        raise TrainingError(f"--seeds {text!r} has a seed twice")
    return seeds
