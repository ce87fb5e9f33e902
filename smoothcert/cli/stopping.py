"""Being told to stop: SIGTERM, and SIGHUP when the terminal is closed, end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from typing import NoReturn

from smoothcert.cli.codes import SIGNALED


class StoppedError(KeyboardInterrupt):
    """By another signal than that of Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def hear_signals() -> None:
    """From now on."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored, and so it stays
            signal.signal(number, _stop)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """By the signal that came."""
    return SIGNALED + (interrupt.number if isinstance(interrupt, StoppedError) else signal.SIGINT)


def _stop(number: int, _: object) -> NoReturn:
    raise StoppedError(number)
