"""Imports that Ctrl-C may cut short: those of a command that has not begun yet take seconds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process at once, as it ends one that is not Python's: there is nothing to clean up yet.

    A KeyboardInterrupt in an import ends in a traceback, and in one of numpy's in a thousand lines of recursion.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # others have decided
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
