"""The command `smoothcert`, made of its commands, and its help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from smoothcert import __version__
from smoothcert.cli.certifications import cancel, list_
from smoothcert.cli.certify import certify
from smoothcert.cli.compare import compare
from smoothcert.cli.diagnose import diagnose
from smoothcert.cli.endings import explained
from smoothcert.cli.ensembles import ensembles
from smoothcert.cli.evaluate import evaluate
from smoothcert.cli.help import Group, add_command
from smoothcert.cli.output import open_output
from smoothcert.cli.plan import plan
from smoothcert.cli.predict import predict
from smoothcert.cli.replay import replay
from smoothcert.cli.report import report
from smoothcert.cli.screen import out
from smoothcert.cli.verify import verify
from smoothcert.cli.watch import watch

EPILOG = """Exit codes:

0  success: every image certified, every certificate consistent, the report written

1  an error, a certificate that is not consistent, or a replay that differs; a sentence says which

2  a wrong command line: an unknown option, or a value that an option cannot have

3  certify, predict and watch: no error, but there are abstentions; compare: the new ensemble is worse; \
plan: no procedure can prove the radius

130  stopped by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP
"""


class Commands(Group):
    """Runs a command and turns every error into a sentence."""

    def invoke(self, ctx: Any) -> Any:
        with explained(debug=bool(ctx.obj)):  # `run` passes --debug as the object of the context
            return super().invoke(ctx)


cli = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EPILOG)
for command in (certify, predict, evaluate, report, compare, diagnose, watch, cancel, ensembles, plan, verify, replay):
    add_command(cli, command)
add_command(cli, list_, name="list")


def _show_version(requested: bool) -> None:
    if requested:
        out.print(f"smoothcert {__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere on the command line.")
    ] = False,
) -> None:
    """Certified robustness by randomized smoothing: is a classifier's answer on an image provably stable?"""


def run(arguments: Sequence[str]) -> None:
    """Run the command with these arguments; --debug is taken out wherever it stands before `--`."""
    open_output()
    end = arguments.index("--") if "--" in arguments else len(arguments)  # after `--` a file may have any name
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    cli([*options, *arguments[end:]], prog_name="smoothcert", obj=len(options) < end)
