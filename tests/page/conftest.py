"""A browser and a service for each file: tests of other files may need the thread's event loop for themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import MISSING, chromium
from tests.support.visit import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if MISSING:
        pytest.skip(MISSING)
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a service; in the end each of them must have behaved."""
    visits: list[Visit] = []
    with ExitStack() as stack:

        def open_page(address: str, **context: Any) -> Visit:
            visits.append(stack.enter_context(Visit(browser, address, **context)))
            return visits[-1]

        yield open_page
        for each in visits:
            each.check()
