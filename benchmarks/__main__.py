"""`python -m benchmarks NAME`: run one benchmark. `--check` exits 1 where a goal is missed."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from pathlib import Path

from smoothcert.errors import SmoothcertError

BENCHMARKS = {
    "accuracy": "benchmarks.paper.accuracy",
    "boundaries": "benchmarks.machine.boundaries",
    "curves": "benchmarks.paper.samples_curves",
    "engine": "benchmarks.machine.engine",
    "estimates": "benchmarks.machine.estimates",
    "evaluate": "benchmarks.paper.evaluate",
    "exits": "benchmarks.machine.exits",
    "feed": "benchmarks.machine.feed",
    "largest": "benchmarks.paper.samples_largest",
    "linf": "benchmarks.paper.linf",
    "load": "benchmarks.machine.load",
    "memory": "benchmarks.machine.memory",
    "optimal": "benchmarks.paper.samples_optimal",
    "owners": "benchmarks.machine.owners",
    "peers": "benchmarks.machine.peers",
    "peers-adaptive": "benchmarks.machine.paper_loop",
    "report": "benchmarks.machine.report",
    "runtimes": "benchmarks.machine.runtimes",
    "samples": "benchmarks.paper.samples",
    "service": "benchmarks.machine.service",
    "shards": "benchmarks.machine.shards",
    "study": "benchmarks.machine.study",
    "training": "benchmarks.machine.training",
    "trainings": "benchmarks.paper.trainings",
    "transfer": "benchmarks.paper.transfer",
    "transfer-expected": "benchmarks.paper.samples_transfer",
    "waiting": "benchmarks.machine.waiting",
}
"""The module of each benchmark, by name. A module has `configure(parser)` and `run(options) -> Result`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True, metavar="NAME")
    for name, path in BENCHMARKS.items():
        module = importlib.import_module(path)
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0], description=module.__doc__)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
        command.add_argument("--write", type=Path, metavar="FOLDER", help="also write the table (and pictures) here")
        module.configure(command)
    options = parser.parse_args()
    try:
        result = importlib.import_module(BENCHMARKS[options.benchmark]).run(options)
        print(result.as_json()) if options.json else result.print()
        if options.write:
            result.write_markdown(options.write / f"{result.name}.md", command=command_line(sys.argv[1:]))
    except (SmoothcertError, ValueError, OSError) as error:  # bad input or a full disk: one sentence, no traceback
        raise SystemExit(f"error: {error}") from error
    if options.check and not any(figure.goal for figure in result.figures):
        raise SystemExit("error: --check has nothing to judge: no figure of this run has a goal")
    return 1 if options.check and not result.reached else 0


def command_line(arguments: list[str]) -> str:
    """The command as it can be typed in the root of any clone: without paths of this machine."""
    return shlex.join(["python", "-m", "benchmarks", *map(portable, arguments)])


def portable(argument: str) -> str:
    """An argument with its path made relative to this folder or, if it lies outside, cut to its name."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute() and ".." not in path.parts:
        return argument
    path = path.resolve()
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path("PATH/TO", path.name)
    return f"{option}{equals}{here}"


if __name__ == "__main__":
    raise SystemExit(main())
