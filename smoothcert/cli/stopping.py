"""Signals: SIGTERM, and SIGHUP when the terminal is closed, end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from typing import NoReturn

from smoothcert.cli.codes import SIGNALED


class StoppedError(KeyboardInterrupt):
    """The command was stopped by another signal than that of Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def handle_signals() -> None:
    """Raise StoppedError on SIGTERM and SIGHUP from now on."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if (
            number is not None and signal.getsignal(number) is signal.SIG_DFL
        ):  # nohup ignores SIGHUP, and it must stay ignored
            signal.signal(number, _stop)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    return SIGNALED + (interrupt.number if isinstance(interrupt, StoppedError) else signal.SIGINT)


def _stop(number: int, _: object) -> NoReturn:
    raise StoppedError(number)
