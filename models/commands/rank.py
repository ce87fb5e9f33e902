from __future__ import annotations

from typing import Annotated

import typer

from models import ranking
from models.commands.options import (
    AllowHost,
    AllowImport,
    Data,
    Device,
    NoiseText,
    Sigma,
    Zoo,
    chosen_noise,
    remote_policy,
)
from models.commands.show import show
from models.data import data_set
from models.registry import ZOO, describe, load, rewrite
from models.selection import Selection


def rank(
    name: Annotated[str, typer.Argument(help="the ensemble")],
    data: Data,
    holdout: Annotated[
        str | None, typer.Option(help="test images for the ranking, like 1::20  [default: those of the data set]")
    ] = None,
    sigma: Sigma = None,
    noise: NoiseText = None,
    draws: Annotated[int, typer.Option(help="draws of noise for each image")] = 4,
    seed: Annotated[int, typer.Option(help="seed of the noise")] = 0,
    device: Device = "cpu",
    allow_import: AllowImport = None,
    allow_host: AllowHost = None,
    zoo: Zoo = ZOO,
) -> None:
    """Order the members by their accuracy under noise on a hold-out, and fit the voting weights there.

    The default noise is that of training.
    """
    description = describe(name, zoo=zoo)
    ranked_under = chosen_noise(noise, sigma) or description.noise
    chosen = data_set(data)
    selection = Selection(holdout) if holdout else chosen.holdout
    images = ranking.HoldOut(chosen.load(data, train=False), selection, ranked_under, draws, seed)
    images.refuse_overlap(Selection(description.evaluation))  # before the networks are loaded
    ensemble = load(
        name,
        zoo=zoo,
        device=device,
        allowed_imports=frozenset(allow_import or ()),
        remote=remote_policy(allow_host),
    )
    rewrite(name, ranking.rank(ensemble, description, images), zoo=zoo)
    show(name, zoo)
