"""The command `smoothcert`: a file for each of its commands, `app.py` to join them; `codes.py` has the exit codes."""

from __future__ import annotations

import sys

from smoothcert.cli.stopping import exit_code, hear_signals


def main() -> None:
    """Run the command."""
    try:
        hear_signals()
        from smoothcert.cli.app import run  # takes a moment, in which Ctrl-C is to be no traceback either

        run(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        raise SystemExit(exit_code(interrupt)) from None
