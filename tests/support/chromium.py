"""A real Chromium, driven by Playwright; `MISSING` says why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The names of its executables. The shell is the same engine without windows and menus, and takes half of the time."""
EXECUTABLE = next(filter(None, map(shutil.which, NAMES)), None)

if find_spec("playwright") is None:
    MISSING = "Playwright is not installed: `make setup` installs it"
elif EXECUTABLE is None:
    MISSING = "Chromium is not installed: `apt-get install chromium-headless-shell` installs it"
else:
    MISSING = ""


LEAN = ("--disable-gpu", "--in-process-gpu", "--renderer-process-limit=1", "--process-per-site")
"""Options that do not affect what a page may do; they save processes."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; while it runs, no other event loop can run in this thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox", *LEAN])
        try:
            yield browser
        finally:
            browser.close()
