"""Imports that Ctrl-C may cut short: those of a command that has not begun yet take seconds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process at once, without an exception: there is nothing to clean up yet.

    A KeyboardInterrupt during an import prints a traceback, and during the import of numpy a thousand lines of it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # another handler is installed
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
