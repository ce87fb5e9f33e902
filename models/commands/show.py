from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from models.commands.options import Zoo
from models.description import Description
from models.registry import ZOO, describe, names
from smoothcert.errors import SmoothcertError
from smoothcert.figures import counted


def show(
    name: Annotated[str | None, typer.Argument(help="one ensemble; without a name, all of them")] = None,
    zoo: Zoo = ZOO,
) -> None:
    """Show the ensembles, or the members of one; every file is compared with its digest.

    Ensembles that cannot be read are listed last, and the exit code is then 1.
    """
    if name is not None:
        Console().print(_one(name, describe(name, zoo=zoo)))
        return
    good, bad = _described(zoo)
    for each, description in good.items():
        typer.echo(f"{each}\n  {_line(description)}")
    for error in bad:
        typer.echo(f"error: {error}", err=True)
    if bad:
        raise typer.Exit(1)


def _described(zoo: Path) -> tuple[dict[str, Description], list[SmoothcertError]]:
    good, bad = {}, []
    for name in names(zoo=zoo):
        try:
            good[name] = describe(name, zoo=zoo)
        except SmoothcertError as error:
            bad.append(error)
    return good, bad


def _line(description: Description) -> str:
    members, shape = counted(len(description.members), "member"), " x ".join(map(str, description.input_shape))
    return (
        f"{members}, {description.architectures}, {len(description.classes)} classes, {shape}, "
        f"noise {description.noise.label}, method {description.method}, digest {description.digest[:12]}"
    )


def _one(name: str, description: Description) -> Table:
    table = Table(
        Column("rank", no_wrap=True),
        Column("file", overflow="fold"),
        Column("digest", no_wrap=True),
        *(Column(number, justify="right", no_wrap=True) for number in ("seed", "under noise", "weight")),
        title=f"{name}  {description.digest}",
    )
    for place, member in enumerate(description.members):
        digest = description.identity(member).digest
        accuracy = description.ranking.accuracies[digest] if description.ranking else None
        weight = description.weights[digest] if description.weights else None
        table.add_row(
            str(place + 1),
            member.file,
            digest[:12],
            str(member.training.get("seed", "")),
            "" if accuracy is None else f"{accuracy:.3f}",
            "" if weight is None else f"{weight:.3f}",
        )
    table.caption = _caption(description)
    return table


def _caption(description: Description) -> str:
    order = "not ranked"
    if by := description.ranking:
        order = f"ranked on {by.data} {by.holdout} ({by.images} images x {by.draws} draws, {by.noise.label})"
    return (
        f"{description.architectures}, noise {description.noise.label}, method {description.method}, "
        f"evaluation {description.evaluation}, {order}"
    )
