"""Errors become one sentence that says what is wrong and what to do, never a traceback; `codes.py` has exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from smoothcert.cli.codes import ERROR
from smoothcert.cli.output import discard_output
from smoothcert.cli.screen import err, plain
from smoothcert.cli.stopping import exit_code

REMEDIES = {
    "expired": "certify the images again",
    "too_large": "give fewer images at a time",
    "too_many_failures": "give the key with --api-key or in SMOOTHCERT_API_KEY",
    "too_many_images": "give fewer images at a time",
    "unauthorized": "give the key with --api-key or in SMOOTHCERT_API_KEY",
    "unknown_certification": (
        "is the id complete, and is this the key that it was submitted with? "
        "results are kept for a limited time, by default for a day"
    ),
}
"""What to do on the command line about an error of the client, by its code."""


@contextmanager
def explained(*, debug: bool) -> Iterator[None]:
    """Turn every exception into a sentence and an exit code; with `debug`, errors are raised as they are."""
    try:
        yield
        sys.stdout.flush()  # a full disk must be found here, where it can still be reported
    except KeyboardInterrupt as interrupt:
        _complain("stopped", "", interrupt)
        raise typer.Exit(exit_code(interrupt)) from None
    except BrokenPipeError:  # the reader of a pipe has closed it
        discard_output()
        raise typer.Exit(ERROR) from None
    except Exception as error:
        if debug or hasattr(error, "exit_code"):  # errors of typer have one, and typer reports them
            raise
        _complain("error: ", _sentence(error), error)
        discard_output()
        raise typer.Exit(getattr(error, "ends_with", ERROR)) from None


def _complain(what: str, sentence: str, error: BaseException) -> None:
    err.print(what, style="bold red", end="")
    err.print(plain(sentence))
    for remark in getattr(error, "__notes__", ()):
        err.print(plain(f"  {remark}"))


def _sentence(error: Exception) -> str:
    from pydantic import ValidationError

    from smoothcert.client.errors import ClientError
    from smoothcert.errors import SmoothcertError, explain

    match error:
        case ClientError():
            later = "" if error.retry_after is None else f"try again in {error.retry_after:g} s"
            return "; ".join(filter(None, (_with_options(error.detail), REMEDIES.get(error.code), later)))
        case SmoothcertError():
            return str(error)
        case ValidationError():
            return explain(error)
        case OSError():
            return f"{error.filename or type(error).__name__}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}; this is a bug in smoothcert; --debug shows where"


def _with_options(detail: str) -> str:
    """A detail with the fields of a request, such as `convert`: 'rgb', replaced by the options of the command."""

    def option(field: re.Match[str]) -> str:
        return " ".join(filter(None, ("--" + field[1].replace("_", "-"), field[2])))

    return re.sub(r"`(allow_noise_mismatch|convert|resize)`(?:: '(\w+)')?", option, detail)
