"""The API as a separate process, and small requests to it."""

from __future__ import annotations

import base64
import io
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
import numpy as np
from PIL import Image

from smoothcert.problem import KINDS, Problem
from tests.service import PATIENCE_S, free_port
from tests.support import nursery
from tests.support.nursery import Child
from tests.support.player import SHAPE

ROOT = Path(__file__).parents[2]
ANSWER_S = 90.0
"""The seconds to wait for a response: more than the longest wait that a client may ask for."""


class Api:
    """`python -m app` with its own settings, as long as the context lasts; `client` is connected to it."""

    command: tuple[str, ...] = (sys.executable, "-m", "app")

    def __init__(self, url: str, folder: Path, **settings: object) -> None:
        self.redis_url, self.port = url, free_port()
        self.log = folder / f"api-{self.port}.log"
        variables = {"redis_url": url, "port": self.port, **settings}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SMOOTHCERT_")}
        self._environment = clean | {f"SMOOTHCERT_{name.upper()}": str(value) for name, value in variables.items()}
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=ANSWER_S)
        self.process: Child | None = None

    def __enter__(self) -> Api:
        self.process = self._start()
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return self

    def _start(self) -> Child:
        with self.log.open("wb") as log:
            return nursery.start(self.command, prepared=nursery.API, env=self._environment, stderr=log)

    def _answers(self) -> bool:
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx2.TransportError:
            return False

    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()


SIZE = (SHAPE[2], SHAPE[1])


def picture(mode: str = "RGB", size: tuple[int, int] = SIZE, file: str = "PNG", **options: Any) -> bytes:
    """A file with an image in which every value is zero."""
    return encoded(Image.new(mode, size), file, **options)


def encoded(image: Image.Image, file: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, file, **options)
    return out.getvalue()


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def tensor(array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": text(array.tobytes())}


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def question(ensemble: str, /, **fields: Any) -> dict[str, Any]:
    """A request with one image, which is answered unless other fields prevent it."""
    return {
        "ensemble": ensemble,
        "radius": 0.25,
        "procedure": {"name": "adaptive", "stages": [100, 200]},
        "images": [text(picture())],
        **fields,
    }


def problem(answer: httpx2.Response, code: str) -> Problem:
    """The problem in a response, which must have this code."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found = Problem.model_validate_json(answer.content)
    assert (found.code, found.status) == (code, KINDS[code].status), found
    assert answer.status_code == found.status
    assert found.title == KINDS[code].title
    assert found.type == f"urn:smoothcert:problem:{code}"
    assert found.request_id == answer.headers["x-request-id"]
    return found
