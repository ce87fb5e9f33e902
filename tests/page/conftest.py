"""A browser and a service for all files of this folder.

Both end with the folder, because Chromium's driver occupies the thread's event loop, which tests elsewhere need.
`make test` keeps the order of the files, so that both are started once in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.service import PageService, page_service
from tests.support.chromium import MISSING, chromium
from tests.support.visit import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if MISSING:
        pytest.skip(MISSING)
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def service(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageService]:
    with page_service(tmp_path_factory.mktemp("page")) as running:
        yield running


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a service; at the end, each of them must have behaved."""
    visits: list[Visit] = []
    with ExitStack() as stack:

        def open_page(address: str, **context: Any) -> Visit:
            visits.append(stack.enter_context(Visit(browser, address, **context)))
            return visits[-1]

        yield open_page
        for each in visits:
            each.check()


@pytest.fixture
def here(visit: Callable[..., Visit], service: PageService) -> Visit:
    """The page, with a question that the small networks answer at once."""
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="trivial", radius="0.02")
    return opened
