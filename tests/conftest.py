"""What every test shares: an empty store, one thread each, since the tests run side by side, and a name of its own."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("house", deadline=None, derandomize=True)  # no timed tests, and no weather
settings.load_profile("house")
OURS = ("smoothcert", "models", "store", "workers", "app")
"""The packages whose loggers every test finds as they are at the start of a process."""
if "PYTEST_XDIST_WORKER" not in os.environ:  # the processes of xdist share the store of the one that starts them
    _store = tempfile.TemporaryDirectory(prefix="smoothcert-tests-")
    os.environ["SMOOTHCERT_CACHE"] = _store.name  # boundaries of an earlier version would hide a change


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test has a node id of its own. pytest-xdist runs one test for each id and forgets the others in silence."""
    twice = [nodeid for nodeid, times in Counter(item.nodeid for item in items).items() if times > 1]
    if twice:
        raise pytest.UsageError(f"{len(twice)} node ids are those of several tests, the first is {twice[0]}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test or a library does to logging must not hide what a later test of the process looks for in the log."""
    logging.disable(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    for name, logger in logging.getLogger().manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OURS:
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long values are named by their argument and counted: some hold random keys, which differ between processes."""
    return argname if isinstance(val, str | bytes) and len(val) > 100 else None
