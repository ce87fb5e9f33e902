"""`python -m models`: train members, make ensembles of them, show and rank them."""

from __future__ import annotations

import sys

import typer

from models.commands.add import add
from models.commands.diagnose import diagnose
from models.commands.rank import rank
from models.commands.show import show
from models.commands.train import train
from smoothcert.errors import SmoothcertError

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (train, add, show, rank, diagnose):
    cli.command()(command)


@cli.callback()
def main() -> None:
    """Networks that withstand noise."""


def run(arguments: list[str] | None = None) -> None:
    """The command line; what is wrong with a network or an ensemble is one sentence, and exit code 1."""
    try:
        cli(arguments)
    except SmoothcertError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    run()
