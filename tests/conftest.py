"""What all tests share: an empty store, one thread each, since they run side by side, and unique node ids."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("house", deadline=None, derandomize=True)  # not timed, the same each run
settings.load_profile("house")
OURS = ("smoothcert", "models", "store", "workers", "app")
"""The packages whose loggers every test finds as they are at the start of a process."""
if "PYTEST_XDIST_WORKER" not in os.environ:  # the processes of xdist share the store of the one that starts them
    _store = tempfile.TemporaryDirectory(prefix="smoothcert-tests-")
    os.environ["SMOOTHCERT_CACHE"] = _store.name  # boundaries of an earlier version would hide a change


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Require a unique node id for every test: pytest-xdist runs one test for each id and silently drops the others."""
    twice = [nodeid for nodeid, times in Counter(item.nodeid for item in items).items() if times > 1]
    if twice:
        raise pytest.UsageError(f"{len(twice)} node ids are those of several tests, the first is {twice[0]}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Reset logging, so that what a test or a library does to it hides nothing from later tests in the same process."""
    logging.disable(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    for name, logger in logging.getLogger().manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OURS:
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their argument and a number: some hold random keys, which differ between processes."""
    return argname if isinstance(val, str | bytes) and len(val) > 100 else None
