"""`python -m models show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from models.description import Description
from models.errors import ModelError
from models.registry import ZOO, describe, names


def show(
    name: Annotated[str | None, typer.Argument(help="one ensemble; without a name, all of them")] = None,
    zoo: Annotated[Path, typer.Option(help="folder of all ensembles")] = ZOO,
) -> None:
    """Show the ensembles, or the members of one; every file is compared with its digest.

    A bad ensemble is named after the good ones, and the exit code is 1.
    """
    if name is not None:
        Console().print(_one(name, describe(name, zoo=zoo)))
        return
    good, bad = _described(zoo)
    for each, said in good.items():
        typer.echo(f"{each}\n  {_line(said)}")
    for error in bad:
        typer.echo(f"error: {error}", err=True)
    if bad:
        raise typer.Exit(1)


def _described(zoo: Path) -> tuple[dict[str, Description], list[ModelError]]:
    good, bad = {}, []
    for name in names(zoo=zoo):
        try:
            good[name] = describe(name, zoo=zoo)
        except ModelError as error:
            bad.append(error)
    return good, bad


def _line(said: Description) -> str:
    shape = " x ".join(map(str, said.input_shape))
    return (
        f"{len(said.members)} members, {said.architecture}, {len(said.classes)} classes, {shape}, "
        f"sigma {said.sigma:g}, {said.method}, digest {said.digest[:12]}"
    )


def _one(name: str, said: Description) -> Table:
    table = Table(
        "rank",
        Column("file", no_wrap=True),
        Column("sha256", no_wrap=True),
        "seed",
        "under noise",
        "weight",
        title=f"{name}  {said.digest}",
    )
    for place, member in enumerate(said.members):
        accuracy = said.ranking.accuracies[member.sha256] if said.ranking else None
        weight = said.weights[member.sha256] if said.weights else None
        table.add_row(
            str(place + 1),
            member.file,
            member.sha256[:12],
            str(member.training.get("seed", "")),
            "" if accuracy is None else f"{accuracy:.3f}",
            "" if weight is None else f"{weight:.3f}",
        )
    table.caption = _caption(said)
    return table


def _caption(said: Description) -> str:
    order = "not ranked"
    if said.ranking:
        by = said.ranking
        order = f"ranked on {by.data} {by.holdout} ({by.images} images x {by.draws} draws, sigma {by.sigma:g})"
    return f"{said.architecture}, sigma {said.sigma:g}, {said.method}, evaluation {said.evaluation}, {order}"
