"""`python -m benchmarks NAME`: run one benchmark. `--check` exits 1 where a goal is missed."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from pathlib import Path

from smoothcert.errors import SmoothcertError

NAMES = ("accuracy", "boundaries", "engine", "evaluate", "load", "peers", "samples", "service")
"""Each is a module here with `configure(parser)` and `run(options) -> Report`."""


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True, metavar="NAME")
    for name in NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0], description=module.__doc__)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
        command.add_argument("--write", type=Path, metavar="FOLDER", help="also write the table (and pictures) here")
        module.configure(command)
    options = parser.parse_args()
    try:
        report = importlib.import_module(f"benchmarks.{options.benchmark}").run(options)
        print(report.as_json()) if options.json else report.print()
        if options.write:
            report.write_markdown(options.write / f"{report.name}.md", command=command_line(sys.argv[1:]))
    except (SmoothcertError, ValueError, OSError) as error:  # bad input and full disks, in a sentence
        raise SystemExit(f"error: {error}") from error
    if options.check and not any(figure.goal for figure in report.figures):
        raise SystemExit("error: --check has nothing to judge: no figure of this run has a goal")
    return 1 if options.check and not report.reached else 0


def command_line(arguments: list[str]) -> str:
    """The command as anybody could type it: in the root of the repository, with no path of this machine."""
    return shlex.join(["python", "-m", "benchmarks", *map(portable, arguments)])


def portable(argument: str) -> str:
    """An argument with its path made relative, or, outside this folder, cut to its name."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute() and ".." not in path.parts:
        return argument
    path = path.resolve()
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path("PATH/TO", path.name)
    return f"{option}{equals}{here}"


if __name__ == "__main__":
    raise SystemExit(main())
