"""A server of the Open Inference Protocol with one model of two classes, dark and light, that misbehaves on demand.

It runs in threads of this process (`serving_model`), or as a separate process: python -m tests.support.inference PORT
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import numpy.typing as npt

SHAPE = (3, 8, 8)
SLOPE = 9.0

Floats = npt.NDArray[np.float32]


def logits_of(images: Floats) -> Floats:
    excess = SLOPE * (images.mean((1, 2, 3)) - 0.5)
    return np.stack([-excess, excess], 1).astype(np.float32)


@dataclass
class ServedModel:
    """What the server says about its model, how it responds, and what it was asked."""

    port: int = 0
    rows: int = -1
    """The number of images that it takes; -1 for any."""
    datatype: str = "FP32"
    inputs: list[dict[str, Any]] | None = None
    outputs: list[dict[str, Any]] | None = None
    answer: Callable[[Floats], Floats] = logits_of
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses other than 200 for the next requests, with headers."""
    binary: bool = True
    """Whether responses have binary tensors instead of numbers in their JSON."""
    spoil: Callable[[bytes, dict[str, str]], bytes] = lambda body, headers: body
    """A function that changes the body of a response."""
    pause_s: float = 0.0
    """The seconds between two bytes of a response."""
    batches: list[int] = field(default_factory=list)
    """The number of images of every request for logits."""
    together: int = 0
    """The most requests for logits at the same time."""
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v2/models/brightness"

    def metadata(self) -> dict[str, Any]:
        images = {"name": "images", "datatype": self.datatype, "shape": [self.rows, *SHAPE]}
        logits = {"name": "logits", "datatype": "FP32", "shape": [self.rows, 2]}
        return {"name": "brightness", "platform": "by-hand", "inputs": self.inputs or [images],
                "outputs": self.outputs or [logits]}  # fmt: skip

    def infer(self, head: dict[str, Any], tensors: bytes) -> tuple[bytes, dict[str, str]]:
        """The body and headers of the response to a request."""
        (tensor,) = head["inputs"]
        kind = {"FP32": "<f4", "FP16": "<f2"}[tensor["datatype"]]
        images = np.frombuffer(tensors, kind).reshape(tensor["shape"]).astype(np.float32)
        with self._lock:
            self.batches.append(len(images))
            self._now += 1
            self.together = max(self.together, self._now)
        try:
            logits = self.answer(images)
        finally:
            with self._lock:
                self._now -= 1
        output: dict[str, Any] = {"name": "logits", "datatype": "FP32", "shape": list(logits.shape)}
        data = logits.astype("<f4").tobytes()
        if self.binary:
            output["parameters"] = {"binary_data_size": len(data)}
        else:
            output["data"], data = logits.reshape(-1).tolist(), b""
        body = json.dumps({"id": head["id"], "model_name": "brightness", "outputs": [output]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(body))} if self.binary else {}
        return self.spoil(body + data, headers), headers


def _handler(model: ServedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            about = {"name": "test-server", "version": "1", "extensions": ["binary_tensor_data"]}
            found = {"/v2": about, "/v2/models/brightness": model.metadata()}.get(self.path)
            self._say(404 if found is None else 200, json.dumps(found or {"error": "no such model"}).encode(), {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if model.statuses:
                status, headers = model.statuses.pop(0)
                self._say(status, b'{"error": "not now"}', headers)
                return
            length = int(self.headers["Inference-Header-Content-Length"])
            answer, headers = model.infer(json.loads(body[:length]), body[length:])
            self._say(200, answer, headers)

        def _say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for at in range(len(body)) if model.pause_s else ():
                self.wfile.write(body[at : at + 1])
                time.sleep(model.pause_s)
            if not model.pause_s:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:  # a client has given up waiting
        pass


@contextmanager
def serving_model(**properties: Any) -> Iterator[ServedModel]:
    """A model in threads of this process."""
    model = ServedModel(**properties)
    server = _Server(("127.0.0.1", model.port), _handler(model))
    model.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    _Server(("127.0.0.1", int(sys.argv[1])), _handler(ServedModel())).serve_forever()
