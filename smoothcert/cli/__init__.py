"""The command `smoothcert`: a file for each of its commands, which `app.py` joins; `codes.py` has the exit codes."""

from __future__ import annotations

import sys

from smoothcert.cli.stopping import exit_code, handle_signals
from smoothcert.extras import MissingExtraError, needed_by

MISSING = "smoothcert: the command needs the extra cli: pip install 'smoothcert[client,cli]'"


def main() -> None:
    """Run the command."""
    try:
        handle_signals()
        with needed_by("the command"):
            from smoothcert.cli.app import run  # inside the try: Ctrl-C during the import must not give a traceback

        run(sys.argv[1:])
    except MissingExtraError:
        raise SystemExit(MISSING) from None
    except KeyboardInterrupt as interrupt:
        raise SystemExit(exit_code(interrupt)) from None
