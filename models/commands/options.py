"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from models.data import DATA_SETS
from smoothcert.cli.options import number
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.noise import NOISES, Noise, parse_noise, resolve

Sigma = Annotated[float | None, number("short for Gaussian noise of this standard deviation")]
NoiseText = Annotated[
    str | None,
    typer.Option(
        "--noise", help=f"the noise, like gaussian:sigma=0.25 or a JSON object; one of {', '.join(NOISES.names)}"
    ),
]
Data = Annotated[
    Path,
    typer.Option(help=f"the folder of a data set ({'; '.join(f'{each.name}: {each.files}' for each in DATA_SETS)})"),
]
Device = Annotated[str, typer.Option(help="cpu, cuda:0, ...")]
AllowImport = Annotated[list[str] | None, typer.Option(help="a module:callable that may be imported")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="a host, or HOST:PORT, at which members may run; SMOOTHCERT_REMOTE_HOSTS lists more of them"),
]
Zoo = Annotated[Path, typer.Option(help="folder of all ensembles")]


def remote_policy(hosts: list[str] | None) -> RemotePolicy:
    """The endpoints that may be asked: those of --allow-host, and those of the setting of the workers."""
    setting = os.environ.get("SMOOTHCERT_REMOTE_HOSTS", "").split(",")
    return RemotePolicy(hosts=frozenset(filter(None, map(str.strip, [*(hosts or ()), *setting]))))


def chosen_noise(noise: str | None, sigma: float | None) -> Noise | None:
    """The noise that --noise or --sigma names; None for neither."""
    return resolve(None if noise is None else parse_noise(noise), sigma)
