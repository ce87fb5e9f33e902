"""A process of its own for work that is measured as somebody's script does it.

What this program settles for its own process, such as how memory is kept (`engine.allocator`), does not hold there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def script() -> Iterator[Executor]:
    """Runs functions of modules, one after the other, in one new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process
