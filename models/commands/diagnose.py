from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import torch
import typer

from models.commands.options import AllowHost, AllowImport, Device, NoiseText, Sigma, Zoo, chosen_noise, remote_policy
from models.data import load_images
from models.errors import DataError
from models.registry import ZOO, load
from models.selection import Selection
from smoothcert.engine import diagnosis


def diagnose(
    name: Annotated[str, typer.Argument(help="the ensemble")],
    data: Annotated[
        Path, typer.Option(help="labelled images: a CIFAR-10 folder, the .json of a sheet, or an .npz file")
    ],
    select: Annotated[str, typer.Option(help="the images to use, for example 1::20")] = "::",
    sigma: Sigma = None,
    noise: NoiseText = None,
    seed: Annotated[int, typer.Option(help="seed of the noise")] = 0,
    device: Device = "cpu",
    allow_import: AllowImport = None,
    allow_host: AllowHost = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    zoo: Zoo = ZOO,
) -> None:
    """Find out why an ensemble certifies less than expected: normalisation, noise in training, and others.

    At most 100 of the images are used, evenly spaced among those that are selected.
    """
    images = load_images(data)
    images = images.pick(Selection(select).places(len(images)))
    if not len(images):
        raise DataError(f"{data}: the selection {select!r} has no images")
    ensemble = load(
        name,
        zoo=zoo,
        device=device,
        allowed_imports=frozenset(allow_import or ()),
        remote=remote_policy(allow_host),
    )
    if (shape := tuple(images.pixels.shape[1:])) != ensemble.input_shape:
        raise DataError(f"{data}: the images have shape {shape}, and {name} takes {ensemble.input_shape}")
    pixels, labels = torch.from_numpy(images.pixels).float() / 255, images.labels.tolist()
    found = diagnosis.diagnose(ensemble, pixels, labels, noise=chosen_noise(noise, sigma), seed=seed)
    typer.echo(json.dumps(found.as_json()) if as_json else str(found))
