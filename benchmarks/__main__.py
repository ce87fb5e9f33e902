"""`python -m benchmarks NAME`: run one benchmark. `--check` exits 1 where a goal is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from smoothcert.errors import SmoothcertError

NAMES = ("boundaries", "engine", "evaluate", "peers", "samples")
"""Each is a module here with `configure(parser)` and `run(options) -> Report`."""


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name in NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0], description=module.__doc__)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
        command.add_argument("--write", type=Path, metavar="FOLDER", help="also write the table (and pictures) here")
        module.configure(command)
    options = parser.parse_args()
    try:
        report = importlib.import_module(f"benchmarks.{options.name}").run(options)
    except (SmoothcertError, ValueError) as error:  # both trees of errors: bad input, in a sentence
        raise SystemExit(f"error: {error}") from error
    if options.write:
        command_line = f"python -m benchmarks {' '.join(sys.argv[1:])}"
        report.write_markdown(options.write / f"{options.name}.md", command=command_line)
    print(report.as_json()) if options.json else report.print()
    return 1 if options.check and not report.reached else 0


if __name__ == "__main__":
    raise SystemExit(main())
