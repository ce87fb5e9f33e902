"""The command `smoothcert`: a file for each of its commands, which `app.py` joins; `codes.py` has the exit codes."""

from __future__ import annotations

import sys

from smoothcert.cli.stopping import exit_code, handle_signals
from smoothcert.extras import MissingExtraError, needed_by

MISSING = "smoothcert: the command needs the extra cli: pip install '.[client,cli]' in a clone of smoothcert"


def main() -> None:
    try:
        handle_signals()
        try:
            with needed_by("the command"):
                from smoothcert.cli.app import run  # takes a moment, in which Ctrl-C must not give a traceback either
        except MissingExtraError:
            raise SystemExit(MISSING) from None
        run(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        raise SystemExit(exit_code(interrupt)) from None
