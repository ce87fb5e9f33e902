from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from models.commands.options import AllowHost, AllowImport, Device, NoiseText, Sigma, Zoo, chosen_noise, remote_policy
from models.data.choice import chosen_images
from models.description import Description
from models.errors import DataError
from models.ranking import refuse_holdout
from models.registry import ZOO, describe, load
from smoothcert.engine.precision import PRECISIONS
from smoothcert.engine.study import study as laboratory
from smoothcert.engine.study.logits import MOST_BYTES
from smoothcert.engine.study.samples import About


def study(
    name: Annotated[str, typer.Argument(help="the ensemble")],
    out: Annotated[Path, typer.Option(help="the folder of the report; its folder `tapes` keeps the samples")],
    images: Annotated[
        str,
        typer.Option(
            help="shipped or a PATH, each also with :SELECTION (data/cifar10:0::20), or a SELECTION of shipped images"
        ),
    ] = "shipped",
    samples: Annotated[int, typer.Option(help="samples of each image")] = laboratory.SAMPLES,
    sigma: Sigma = None,
    noise: NoiseText = None,
    alpha: Annotated[float, typer.Option(help="the chance of a false certificate of one image")] = 0.001,
    beta: Annotated[float, typer.Option(help="the chance of giving up too early")] = 0.001,
    batch: Annotated[int, typer.Option(help="samples that go through a member at once")] = 256,
    precision: Annotated[
        str, typer.Option(help=f"precision of the arithmetic of the members: {', '.join(PRECISIONS)}")
    ] = "float32",
    most_bytes: Annotated[int, typer.Option(help="the most bytes of the recorded samples on disk")] = MOST_BYTES,
    device: Device = "cpu",
    allow_import: AllowImport = None,
    allow_host: AllowHost = None,
    zoo: Zoo = ZOO,
) -> None:
    """Repeat the paper's experiments with an ensemble: its theory, every table and every figure, in one report.

    The members see every sample once, and their logits are kept. A run that is stopped goes on with the same command.
    """
    description = describe(name, zoo=zoo)
    chosen = chosen_images(images, description)
    if not len(chosen):
        raise DataError(f"{images}: there are no images to study")
    if chosen.classes != description.classes and not numbered(chosen.classes, description.classes):
        raise DataError(f"{images}: the images have the classes {chosen.classes}, the ensemble {description.classes}")
    if chosen.shape != description.input_shape:
        raise DataError(f"{images}: the images have shape {chosen.shape}, and {name} takes {description.input_shape}")
    refuse_holdout(description.ranking, chosen)
    ensemble = load(
        name,
        zoo=zoo,
        device=device,
        precision=precision,
        batch=batch,
        allowed_imports=frozenset(allow_import or ()),
        remote=remote_policy(allow_host),
    )
    others = noise_words(noise, sigma) + ("" if precision == "float32" else f" --precision {precision}")
    command = f"python -m models study {name} --images {images} --samples {samples}{others} --out FOLDER"
    found = laboratory.study(
        ensemble,
        list(torch.from_numpy(chosen.pixels)),
        chosen.labels.tolist(),
        out,
        noise=chosen_noise(noise, sigma) or description.noise,
        about=About(name, chosen.name, description.architecture, methods(description), command),
        indices=chosen.indices.tolist(),
        samples=samples,
        alpha=alpha,
        beta=beta,
        batch=batch,
        most_bytes=most_bytes,
    )
    typer.echo(found.write(out))


def noise_words(noise: str | None, sigma: float | None) -> str:
    """The options that name another noise than that of the training."""
    return f" --noise {noise}" if noise else "" if sigma is None else f" --sigma {sigma:g}"


def numbered(classes: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether these classes have numbers for names, as in an npz file, all of which the ensemble has."""
    return len(classes) <= len(known) and classes == tuple(map(str, range(len(classes))))


def methods(description: Description) -> list[str]:
    """The training method of each member: its own record's, or else the ensemble's."""
    return [str(member.training.get("method", description.method)) for member in description.members]
