"""Draw the picture of the page for the README: `python -m tests.page.picture docs/page.png`."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.support.chromium import MISSING, chromium
from tests.support.shipped import shipped
from tests.support.visit import Visit

SAMPLE, RADIUS = "cat", "0.36"
"""A sample image and a radius that are certified for sure, but not at the first look."""
COLOURS = 128
"""The number of colours of the picture, which keeps it small."""


def draw(path: Path) -> None:
    """Certify a sample on the page, and save a picture of the answer."""
    with tempfile.TemporaryDirectory() as folder, shipped(Path(folder)) as api, chromium() as browser:
        address = f"http://127.0.0.1:{api.port}/"
        with Visit(browser, address, viewport={"width": 1200, "height": 1240}, color_scheme="light") as visit:
            visit.page.click(f".thumb:has-text('{SAMPLE}')")
            visit.ask(radius=RADIUS, procedure="sequential, strict", consensus="3")
            visit.page.click("#more summary")
            visit.page.wait_for_selector(f"#plan :text('adius {RADIUS} is proved')")
            visit.certify()
            visit.page.wait_for_selector(".claim", timeout=600_000)
            visit.page.wait_for_selector(".readout :text('p_A in')")
            visit.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
            seen = Image.open(io.BytesIO(visit.page.screenshot()))
    seen.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    draw(Path(sys.argv[1]))
