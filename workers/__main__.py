"""`python -m workers`: a worker process for each device, around one Redis.

`replay` repeats a certificate; `health` tells whether a worker on this host is alive.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

# This must come before torch is imported. OpenMP's threads spin while they wait for each other, and where other
# processes use the same cores they spin most of the time away (four times fewer evaluations per second, measured).
# A short spin costs nothing.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from smoothcert.imports import ended_by_ctrl_c

with ended_by_ctrl_c():
    import typer

    from smoothcert.cli.help import Command, Group
    from smoothcert.errors import SmoothcertError
    from store.inspection import UnusableServerError
    from store.settings import WRONG_SETTINGS
    from workers.errors import HoldingsError, SettingsError

cli = typer.Typer(cls=Group, add_completion=False, pretty_exceptions_enable=False)


@cli.callback(invoke_without_command=True)
def serve(context: typer.Context) -> None:
    """Take certifications from the queue until SIGTERM. The settings are environment variables (docs/operation.md)."""
    if context.invoked_subcommand is None:
        from workers.fleet import serve

        serve()


@cli.command(cls=Command)
def replay(
    certificate: Annotated[str, typer.Argument(help="A certificate, as JSON, or its attestation.")],
    image: Annotated[str, typer.Argument(help="The image: PNG, JPEG, WebP or npy.")],
    zoo: Annotated[str, typer.Option(help="The folder of ensembles; the shipped one if left out.")] = "",
    allow_import: Annotated[
        list[str] | None, typer.Option(help="module:callable of a network that the ensemble may name")
    ] = None,
    attest: Annotated[
        Path | None, typer.Option(help="Sign the outcome and write it into this file; --keyring names the key.")
    ] = None,
    keyring: Annotated[
        Path | None, typer.Option(help="The file with your own key, which `python -m app keygen FILE` makes.")
    ] = None,
) -> None:
    """Draw the samples of a certificate again from its seed, and compare every count."""
    from workers.replay import command

    command(certificate, image, zoo, frozenset(allow_import or ()), attest=attest, keyring=keyring)


@cli.command(cls=Command)
def health() -> None:
    """Exit with 0 if a worker on this host has sent a heartbeat lately."""
    from workers.health import check

    check()


def run() -> None:
    """Run the command line; an error of ours is one sentence and exit code 1."""
    try:
        cli()
    except (HoldingsError, SettingsError, UnusableServerError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(WRONG_SETTINGS)
    except SmoothcertError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    run()
