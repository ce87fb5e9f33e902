"""`python -m models rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from models import ranking
from models.commands.show import show
from models.data import load_cifar10
from models.registry import ZOO, describe, load, rewrite
from models.selection import Selection


def rank(
    name: Annotated[str, typer.Argument(help="the ensemble")],
    data: Annotated[Path, typer.Option(help="CIFAR-10: torchvision's folder or a folder of sheets")],
    holdout: Annotated[str, typer.Option(help="test images for the ranking, like 1::20")] = "1::20",
    sigma: Annotated[float | None, typer.Option(help="the noise; by default that of training")] = None,
    draws: Annotated[int, typer.Option(help="draws of noise for each image")] = 4,
    seed: Annotated[int, typer.Option(help="of the noise")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
    allow_import: Annotated[list[str] | None, typer.Option(help="a module:callable that may be imported")] = None,
    zoo: Annotated[Path, typer.Option(help="folder of all ensembles")] = ZOO,
) -> None:
    """Order the members by their accuracy under noise on a hold-out, and fit the voting weights there."""
    description = describe(name, zoo=zoo)
    images = ranking.HoldOut(
        load_cifar10(data, train=False),
        Selection(holdout),
        description.sigma if sigma is None else sigma,
        draws,
        seed,
    )
    images.refuse_overlap(Selection(description.evaluation))  # before the networks are loaded
    ensemble = load(name, zoo=zoo, device=device, allowed_imports=frozenset(allow_import or ()))
    rewrite(name, ranking.rank(ensemble, description, images), zoo=zoo)
    show(name, zoo)
