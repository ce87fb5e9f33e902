"""A bare service of FastAPI and RQ that returns what it gets: the least that a request through a queue costs.

Its endpoint enqueues a job and waits for the result, as RQ's documentation shows it. The worker is RQ's SimpleWorker,
which keeps what it has loaded and forks for no job.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI
from redis import Redis
from rq import Queue

from app.local.embedded import EmbeddedServer
from benchmarks.machine.deployment import START_S, free_port

QUEUE = "echo"
PATH = "/echo"


def echo(body: dict[str, Any]) -> dict[str, Any]:
    return body


def api(url: str) -> FastAPI:
    made, queue = FastAPI(), Queue(QUEUE, connection=Redis.from_url(url))

    @made.post(PATH)
    def post(body: Annotated[dict[str, Any], Body()]) -> Any:
        result = queue.enqueue("benchmarks.machine.echo.echo", body, result_ttl=60).latest_result(timeout=60)
        assert result is not None
        return result.return_value

    return made


class EchoService:
    """A context manager around the running service, which has a server of its own."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.port = free_port()

    def __enter__(self) -> EchoService:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="echo-")))
        url = self._stack.enter_context(EmbeddedServer(folder / "server")).url
        log = self._stack.enter_context((folder / "log").open("wb"))
        worker = ("rq.cli", "worker", "--worker-class", "rq.SimpleWorker", "--quiet", "--url", url, QUEUE)
        for module, *arguments in ((__name__, url, str(self.port)), worker):
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=log, stderr=log)
            self._stack.callback(process.wait)
            self._stack.callback(process.terminate)
        try:
            self._await_ready()
        except OSError:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_S
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{PATH}", b"{}", {"Content-Type": "application/json"}
        )
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(request, timeout=5):  # noqa: S310
                    return
            except OSError:
                time.sleep(0.1)
        raise OSError(f"the echo was not ready within {START_S:g} s")


if __name__ == "__main__":
    uvicorn.run(api(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
