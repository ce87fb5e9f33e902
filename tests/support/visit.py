"""One visit to the page: what a person does there, and what the browser saw of it."""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Any

from PIL import Image

from tests.support.api import encoded
from tests.support.worker_networks import SHAPE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request

PATIENCE_MS = 60_000
"""The machine may be slow."""
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""What Chromium itself writes where the server answers a problem."""


class Visit:
    """A page of a service, in a context of its own."""

    def __init__(self, browser: Browser, address: str, **context: Any) -> None:
        self.address = address
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(VIOLATIONS)
        self.page = self.context.new_page()
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.goto(address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.context.close()

    def check(self) -> None:
        """Nothing was asked of another host, nothing was thrown, nothing was against the policy."""
        elsewhere = [each.url for each in self.requests if not each.url.startswith((self.origin, "data:", "blob:"))]
        assert not elsewhere
        assert self.page.evaluate("window.violations") == []
        assert [text for text in self.complaints if not REFUSED.match(text)] == []

    @property
    def origin(self) -> str:
        return self.address.partition("/#")[0].rstrip("/") + "/"

    # --- what a person does

    def choose(self, *images: bytes) -> None:
        """Pick files."""
        files: list[Any] = [
            {"name": f"image-{i}.png", "mimeType": "image/png", "buffer": data} for i, data in enumerate(images)
        ]
        self.page.set_input_files("#files", files)

    def ask(self, **fields: str) -> None:
        """Fill in the question."""
        for name, value in fields.items():
            field = self.page.locator(f"[name={name}]")
            if not field.is_visible():
                self.page.click("#more summary")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)

    def certify(self) -> None:
        self.page.click("#certify")

    # --- what a person sees

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


def grey(level: int) -> bytes:
    """A PNG file for the small networks of the tests, in which every value is the same."""
    return encoded(Image.new("RGB", SHAPE[:0:-1], (level,) * 3))


DARK, LIGHT = grey(0), grey(255)
CLOSE = grey(121)
"""Dark in about 88 % of all samples at the networks' sigma."""
