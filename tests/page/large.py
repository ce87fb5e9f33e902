"""Draw the picture of a certificate for large images: `python -m tests.page.large docs/large.png`."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from app.local.embedded import EmbeddedServer
from tests.page.picture import COLOURS
from tests.support.api import Api
from tests.support.chromium import MISSING, chromium
from tests.support.large import large_zoo, peak_mb, photograph
from tests.support.pool import Pool
from tests.support.visit import Visit

QUESTION = {"procedure": {"name": "fixed", "n": 100, "n0": 24}, "consensus": 2, "resize": "cover"}
"""A question with few samples: each takes two or three forward passes of a ResNet50."""


def draw(path: Path, zoo: Path | None = None) -> None:
    """Certify an image on the page, save a picture of the answer, and print memory, time and bytes.

    The zoo is made unless there is one.
    """
    with tempfile.TemporaryDirectory() as name, EmbeddedServer(Path(name) / "valkey") as server:
        folder = Path(name)
        pool = Pool(server, zoo or large_zoo(folder / "zoo"), "default")
        try:
            pool.start(patience=600)
            (worker,) = pool.processes
            print(f"loaded: the worker has taken {peak_mb(worker.pid):.0f} MB at most")
            with Api(server.url, folder) as api, chromium() as browser:
                _certify(api, browser, path)
            print(f"certified: the worker has taken {peak_mb(worker.pid):.0f} MB at most")
        finally:
            pool.end()


def _certify(api: Api, browser: object, path: Path) -> None:
    begun, seen = time.monotonic(), set()
    window = {"viewport": {"width": 1200, "height": 1000}, "color_scheme": "light"}
    files = {"images": ("photograph.png", photograph())}
    posted = api.client.post("/v1/certifications", data={"request": json.dumps(QUESTION)}, files=files).json()
    address, page = f"/v1/certifications/{posted['id']}", f"http://127.0.0.1:{api.port}/#/certifications/{posted['id']}"
    with Visit(browser, page, **window) as visit:  # type: ignore[arg-type]
        while (answer := api.client.get(address).json())["status"] in ("queued", "running"):
            seen.add(answer["progress"]["samples"])
            time.sleep(0.2)
        (certificate,) = answer["certificates"]
        took, size = time.monotonic() - begun, len(json.dumps(certificate, separators=(",", ":")))
        print(f"{answer['status']} after {took:.0f} s; samples as progress showed them: {sorted(seen)}")
        print(f"the certificate has {size:,} bytes")
        visit.page.wait_for_selector("text=What was certified is a resized image", timeout=60_000)
        visit.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        picture = Image.open(io.BytesIO(visit.page.screenshot()))
    picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    draw(*map(Path, sys.argv[1:]))
