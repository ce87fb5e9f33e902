"""One visit to the page: what a user does there, and what the browser sees of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from PIL import Image

from tests.support.api import encoded
from tests.support.worker_networks import SHAPE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request, Route

PATIENCE_MS = 60_000
"""The milliseconds for which the browser waits for anything; the machine may be busy."""
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""The line that Chromium itself writes into the console when the server responds with a problem."""


class Visit:
    """A page of a service, in its own browser context."""

    def __init__(
        self, browser: Browser, address: str, *, answers: Mapping[str, Any] | None = None, **context: Any
    ) -> None:
        """Open the page; `answers` has the JSON that the browser gets for some paths in place of the service's."""
        self.address = address
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(VIOLATIONS)
        self.page = self.context.new_page()
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda entry: entry.type == "error" and self.complaints.append(entry.text))
        for path, value in (answers or {}).items():
            self.page.route(f"**{path}", _answering(value))
        self.page.goto(address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.context.close()

    def check(self) -> None:
        """Assert that no request went to another host, no error was thrown, and no security policy was violated."""
        elsewhere = [each.url for each in self.requests if not each.url.startswith((self.origin, "data:", "blob:"))]
        assert not elsewhere
        assert self.page.evaluate("window.violations") == []
        assert [text for text in self.complaints if not REFUSED.match(text)] == []

    @property
    def origin(self) -> str:
        return self.address.partition("/#")[0].rstrip("/") + "/"

    # --- what a user does

    def choose(self, *images: bytes) -> None:
        files: list[Any] = [
            {"name": f"image-{i}.png", "mimeType": "image/png", "buffer": data} for i, data in enumerate(images)
        ]
        self.page.set_input_files("#files", files)

    def ask(self, **fields: str) -> None:
        """Fill in the question."""
        for name, value in fields.items():
            field = self.page.locator(f"[name='{name}']")
            if not field.is_visible():
                self.page.click("#more summary")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)

    def certify(self) -> None:
        self.page.click("#certify")

    # --- what a user sees

    def text(self, selector: str) -> str:
        """The text of the first such element, once it is there."""
        return self.page.locator(selector).first.inner_text()

    def figure(self, name: str) -> str:
        """A figure of the answer."""
        return self.text(f"#answer .figures div:has(dt:text-is('{name}')) dd")

    @property
    def certification(self) -> str:
        """The id in the address, once it is there."""
        self.page.wait_for_url("**/#/certifications/*")
        return self.page.url.rsplit("/", 1)[1]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def _answering(value: Any) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=value)


def grey(level: int) -> bytes:
    """A PNG file for the small networks of the tests, in which every value is the same."""
    return encoded(Image.new("RGB", SHAPE[:0:-1], (level,) * 3))


DARK, LIGHT = grey(0), grey(255)
CLOSE = grey(121)
"""An image that is dark in about 88 % of all samples at the networks' sigma."""
