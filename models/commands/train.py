from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from models.addition import Addition, add, require_free
from models.architectures import ARCHITECTURES, DENOISERS
from models.commands.options import Data, Device, NoiseText, Zoo, chosen_noise
from models.data import data_set
from models.errors import TrainingError
from models.registry import ZOO, writing
from models.training.loop import PRESETS
from models.training.members import DENOISING, METHODS, TRAINING_PRECISIONS, Task, train_members
from models.training.method import adjusted
from smoothcert.cli.options import number
from smoothcert.figures import counted
from smoothcert.noise import Noise

DEFAULT_SIGMA = 0.25
"""The standard deviation of the Gaussian noise of training, unless the command names another noise."""

DEFAULT_DENOISER = "dncnn-half-8x48"
"""The denoiser that trains fastest on a CPU."""


def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="folder for weights and checkpoints")],
    seeds: Annotated[str, typer.Option(help="one seed for each member, like 0,1,2")] = "0",
    sigma: Annotated[
        float | None,
        number(
            f"short for Gaussian noise of this standard deviation, in pixels of [0, 1]; 0 trains without noise  "
            f"[default: {DEFAULT_SIGMA}]"
        ),
    ] = None,
    noise: NoiseText = None,
    method: Annotated[str, typer.Option(help=", ".join((*METHODS, *DENOISING)))] = "gaussian",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            help="a parameter of the method, like copies=4, in place of its published value; may be repeated, and "
            "the record of the training states it"
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(ARCHITECTURES)}; for a denoiser {', '.join(DENOISERS)}  [default: the one for the data "
            f"set, or {DEFAULT_DENOISER}]"
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help=", ".join(PRESETS))] = "paper",
    precision: Annotated[
        str,
        typer.Option(
            help="precision of the arithmetic inside the layers: float32, or the faster bfloat16 where a CPU has it"
        ),
    ] = "float32",
    classifier: Annotated[
        Path | None, typer.Option(help="the file of the trained classifier behind a denoiser; it stays as it is")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(help="begin with the weights in this .safetensors file; {seed} in its name stands for the seed"),
    ] = None,
    jobs: Annotated[int, typer.Option(help="members trained at the same time")] = 1,
    device: Device = "cpu",
    resume: Annotated[bool, typer.Option(help="go on from what --out holds, or refuse to")] = True,
    ensemble: Annotated[str | None, typer.Option(help="make an ensemble of this name of the trained members")] = None,
    zoo: Zoo = ZOO,
) -> None:
    """Train members; a second call goes on from the last checkpoints."""
    for name, value, known in (("method", method, {**METHODS, **DENOISING}), ("preset", preset, PRESETS)):
        if value not in known:
            raise TrainingError(f"--{name} must be one of {', '.join(known)}; got {value!r}")
    if precision not in TRAINING_PRECISIONS:
        raise TrainingError(f"--precision must be one of {', '.join(TRAINING_PRECISIONS)}; got {precision!r}")
    if jobs < 1:
        raise TrainingError(f"--jobs must be at least 1, got {jobs}")
    trained_under = _training_noise(noise, sigma)
    parameters = _parameters(parameter or [])
    if method in DENOISING:
        _require_classifier(method, classifier, trained_under)
    elif classifier is not None:
        raise TrainingError(f"--classifier belongs to the methods {', '.join(DENOISING)}; the method is {method}")
    else:
        adjusted(METHODS[method](trained_under), parameters)  # refuses a noise or parameter that it does not have
    if ensemble:
        _require_possible(ensemble, zoo, trained_under)  # before the hours of training
    members = _seeds(seeds)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    network = architecture or (DEFAULT_DENOISER if method in DENOISING else data_set(data).architecture)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    tasks = [
        Task(
            data,
            out,
            network,
            method,
            trained_under,
            preset,
            seed,
            threads,
            device,
            precision,
            classifier=classifier,
            start=None if start is None else Path(str(start).replace("{seed}", str(seed))),
            parameters=parameters,
        )
        for seed in members
    ]
    if not resume:
        _require_new(tasks)
    train_members(tasks, jobs=jobs)
    if ensemble:
        images = data_set(data).load(data, train=False)
        properties = Addition(classes=images.classes, input_shape=images.shape, classifier=classifier)
        added = add(ensemble, [task.weights for task in tasks], properties, zoo=zoo)
        typer.echo(f"{ensemble}: {counted(len(added.members), 'member')}, digest {added.digest}")


def _training_noise(noise: str | None, sigma: float | None) -> Noise | None:
    """The noise to train under; None for `--sigma 0`, which trains without noise."""
    if sigma is not None and not (math.isfinite(sigma) and sigma >= 0):
        raise TrainingError(f"--sigma must be zero or more and finite, got {sigma}")
    if noise is None and sigma is None:
        sigma = DEFAULT_SIGMA
    return None if noise is None and sigma == 0 else chosen_noise(noise, sigma)


def _require_classifier(method: str, classifier: Path | None, noise: Noise | None) -> None:
    if classifier is None:
        raise TrainingError(
            f"the method {method} trains a denoiser in front of a classifier: name the file of the classifier by "
            f"--classifier; `train --sigma 0` trains one"
        )
    if not classifier.is_file():
        raise TrainingError(f"--classifier {classifier} is missing, or not a file")
    if noise is None:
        raise TrainingError(f"the method {method} needs noise to remove, and --sigma 0 means none")


def _require_possible(ensemble: str, zoo: Path, noise: Noise | None) -> None:
    require_free(ensemble, zoo)
    if noise is None:
        raise TrainingError(
            f"--ensemble {ensemble} needs the noise under which it is to be certified, and --sigma 0 trains without "
            f"noise: leave --ensemble out, and make the ensemble by `models add` with --sigma or --noise"
        )


def _require_new(tasks: Sequence[Task]) -> None:
    """Refuse to overwrite hours of training."""
    for file in (file for task in tasks for file in (task.weights, task.checkpoint)):
        if file.exists():
            raise TrainingError(f"{file} exists: go on from it with --resume, or choose another --out")


def _parameters(texts: Sequence[str]) -> dict[str, float]:
    """The values by name of texts like copies=4."""
    parameters: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TrainingError(f"--parameter must be a name and a number, like copies=4; got {text!r}")
        if name in parameters:
            raise TrainingError(f"--parameter {name} is given twice")
        parameters[name] = value
    return parameters


def _seeds(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise TrainingError(f"--seeds must be like 0,1,2, got {text!r}")
    seeds = [int(seed) for seed in text.split(",")]
    if len(set(seeds)) != len(seeds):
        raise TrainingError(f"--seeds {text!r} has a seed twice")
    return seeds
