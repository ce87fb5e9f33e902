"""The commands, together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from smoothcert import __version__
from smoothcert.cli.certify import certify
from smoothcert.cli.endings import explained
from smoothcert.cli.ensembles import ensembles
from smoothcert.cli.evaluate import evaluate
from smoothcert.cli.output import open_output
from smoothcert.cli.plan import plan
from smoothcert.cli.screen import out
from smoothcert.cli.verify import verify
from smoothcert.cli.watch import watch

EPILOG = """Exit codes:

0  all is well: every image certified, every certificate consistent, the report written

1  an error, or a certificate that does not hold; a sentence on standard error says which

2  the command line itself is wrong

3  certify and watch: all went well, but some images were abstained from

130  Ctrl-C; likewise 143 SIGTERM, and 129 SIGHUP
"""


class Commands(TyperGroup):
    """Runs a command and explains how it ended."""

    def invoke(self, ctx: Any) -> Any:
        """With the context's object: whether tracebacks are wanted."""
        with explained(debug=bool(ctx.obj)):
            return super().invoke(ctx)


cli = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EPILOG)
for command in (certify, evaluate, watch, ensembles, plan, verify):
    cli.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"smoothcert {__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; anywhere on the line.")] = False,
) -> None:
    """Certified robustness by randomized smoothing: is a classifier's answer on an image provably stable?"""


def run(arguments: Sequence[str]) -> None:
    """Run the command with these arguments."""
    open_output()
    end = arguments.index("--") if "--" in arguments else len(arguments)  # after it a file may have any name
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    cli([*options, *arguments[end:]], prog_name="smoothcert", obj=len(options) < end)
