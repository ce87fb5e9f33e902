"""`python -m models`: train members, make ensembles of them, show them and rank them."""

from __future__ import annotations

import sys

from smoothcert.imports import ended_by_ctrl_c

with ended_by_ctrl_c():
    import typer

    from models.commands.add import add
    from models.commands.diagnose import diagnose
    from models.commands.rank import rank
    from models.commands.show import show
    from models.commands.study import study
    from models.commands.train import train
    from smoothcert.cli.help import Group, add_command
    from smoothcert.errors import SmoothcertError

cli = typer.Typer(cls=Group, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (train, add, show, rank, diagnose, study):
    add_command(cli, command)


@cli.callback()
def main() -> None:
    """Train networks that withstand noise, and make ensembles of them."""


def run(arguments: list[str] | None = None) -> None:
    """The command line. Errors of ours are printed as one sentence, with exit code 1."""
    try:
        cli(arguments)
    except SmoothcertError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    run()
