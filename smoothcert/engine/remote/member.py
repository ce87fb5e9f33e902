"""A network whose forward pass happens at an endpoint.

A batch is split into requests of one shape. Each is tried again for as long as the endpoint is away, so no sample is
dropped; an answer that is not what was asked is an error, and never a vote. The last row of a batch is always the same
test image: an endpoint that answers it otherwise than before serves another model, or none that is a function.

This notices a model that was exchanged. It does not pin it: a certificate says so (`RemoteRecord`).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from smoothcert.engine.errors import RemoteError
from smoothcert.engine.form import CLOSE, probe_images
from smoothcert.engine.remote.connection import AwayError, Connections
from smoothcert.engine.remote.endpoint import Endpoint, ModelAddress, RemotePolicy
from smoothcert.engine.remote.messages import (
    MOST_JSON,
    Logits,
    ModelMetadata,
    inference,
    most_bytes,
    read_logits,
    read_object,
)

FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 5.0
"""Seconds between two tries of a request: the first pause, which doubles up to the last, unless the endpoint says."""
MOST_SERVER = 200
"""The characters of what a server says of itself that are kept."""


class Remote(nn.Module):
    """Logits from an endpoint. Several threads may call it, and copies have connections of their own."""

    whole_batches = True
    """Its batches are not cut to what suits the cache of this processor."""

    def __init__(self, endpoint: Endpoint, *, classes: int, policy: RemotePolicy) -> None:
        super().__init__()
        policy.require(endpoint.address)
        self.endpoint, self.classes, self.policy = endpoint, classes, policy
        self._begin()

    def _begin(self) -> None:
        self._connections = Connections(self.endpoint.address, self.policy.timeout_s)
        self._threads: ThreadPoolExecutor | None = None
        self._lock, self._closed = threading.Lock(), threading.Event()
        answer = self.endpoint.answer
        self._answer: Logits | None = None if answer is None else np.array(answer, np.float32)
        self._answered_at = time.monotonic()
        self._gave_up = False
        self.tries = 0
        """The tries that have ended, well or badly; each has its time limit, so a watchdog sees that it moves."""

    def forward(self, images: Tensor) -> Tensor:
        """The logits [N, classes] of images [N, C, H, W]; RemoteError if the endpoint does not give them in time."""
        rows = images.detach().to("cpu", torch.float32).contiguous().numpy()
        canary = probe_images((1, *images.shape[1:])).numpy()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.policy.connections, thread_name_prefix="remote")
        if not self._gave_up:  # it may have been idle for long, which is not being away
            self._answered_at = time.monotonic()
        answers = [*self._threads.map(self._ask, _parts(np.concatenate([rows, canary]), self.endpoint))]
        logits = np.concatenate(answers)[: len(rows) + 1]
        self._compare(logits[-1])
        return torch.from_numpy(logits[:-1]).to(images.device)

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """There is no faster form here."""
        return self, "remote"

    def extra_repr(self) -> str:
        return self.endpoint.model_copy(update={"answer": None}).model_dump_json()

    def close(self) -> None:
        """Give up what is being asked, and ask nothing any more."""
        self._closed.set()
        self._connections.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, images: npt.NDArray[np.float32]) -> Logits:
        """The logits of one request, tried until the endpoint has been away for too long."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                logits = self._try(images)
            except AwayError as error:
                self.tries += 1
                waited = time.monotonic() - self._answered_at
                # Having given up once, it gives up at the next failure: other images need not wait for theirs.
                if self._gave_up or self._closed.is_set() or waited > self.policy.patience_s:
                    self._gave_up = True
                    raise RemoteError(f"{self._who} has been away for {waited:.0f} s: {error}") from error
                self._closed.wait(error.retry_after or pause)
                pause = min(2 * pause, LAST_PAUSE_S)
            except RemoteError as error:
                raise RemoteError(f"{self._who}: {error}") from error
            else:
                self.tries += 1
                self._answered_at, self._gave_up = time.monotonic(), False
                return logits

    def _try(self, images: npt.NDArray[np.float32]) -> Logits:
        identifier = uuid.uuid4().hex
        headers, body = inference(self.endpoint, images, identifier)
        path, most = f"{self.endpoint.address.path}/infer", most_bytes(len(images), self.classes)
        reply = self._connections.exchange("POST", path, headers=headers, body=body, most=most)
        rows, classes = len(images), self.classes
        return read_logits(self.endpoint, reply.headers, reply.body, identifier=identifier, rows=rows, classes=classes)

    def _compare(self, logits: Logits) -> None:
        """Raise RemoteError if the test image has other logits than before."""
        if not np.isfinite(logits).all():
            raise RemoteError(f"{self._who} gives the test image logits that are not finite")
        with self._lock:
            before = self._answer
            if before is None:
                self._answer = logits.copy()
                return
        if before.shape != logits.shape:
            raise RemoteError(f"{self._who} gives {len(logits)} logits, and {len(before)} when it was added")
        if (off := float(np.abs(logits - before).max())) > CLOSE * max(float(np.abs(before).max()), CLOSE):
            raise RemoteError(
                f"{self._who} has changed, or an answer depends on more than its image: the test image has logits that "
                f"are off by {off:.3g} from those before; a changed model must be added as another ensemble"
            )

    @property
    def answer(self) -> tuple[float, ...] | None:
        """The logits of the test image; None before the first batch."""
        return None if self._answer is None else tuple(map(float, self._answer))

    @property
    def _who(self) -> str:
        return f"the endpoint {self.endpoint.url}"

    def __getstate__(self) -> dict[str, Any]:
        mine = ("_connections", "_threads", "_lock", "_closed")
        return {name: value for name, value in vars(self).items() if name not in mine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._begin()


def _parts(rows: npt.NDArray[np.float32], endpoint: Endpoint) -> Iterator[npt.NDArray[np.float32]]:
    """The rows in requests of one shape: as few as there can be, shared evenly unless the model fixes their number."""
    requests = -(-len(rows) // endpoint.rows)
    size = endpoint.rows if endpoint.fixed else -(-len(rows) // requests)
    padding = requests * size - len(rows)
    padded = np.concatenate([rows, np.zeros((padding, *rows.shape[1:]), np.float32)]) if padding else rows
    return iter(np.split(padded, requests))


def discover(
    url: str, *, classes: int, input_shape: tuple[int, int, int], policy: RemotePolicy, rows: int | None = None
) -> Endpoint:
    """The endpoint at a URL, by its own description, with its answer to the test image; RemoteError if it is unfit.

    It is asked twice, so that one that changes its answer is not taken.
    """
    address = ModelAddress.of(url)
    policy.require(address)
    policy = replace(policy, patience_s=0.0)  # the user who adds an endpoint learns at once that it is away
    connections = Connections(address, policy.timeout_s)
    try:
        metadata = ModelMetadata.read(connections.exchange("GET", address.path, most=MOST_JSON).body)
        about = read_object(connections.exchange("GET", f"{address.base}/v2", most=MOST_JSON).body)
    except RemoteError as error:
        raise RemoteError(f"the endpoint {url}: {error}") from error
    finally:
        connections.close()
    try:
        images, logits = metadata.input_for(input_shape), metadata.output_for(classes)
    except RemoteError as error:
        raise RemoteError(f"the endpoint {url}: {error}") from error
    fixed = images.shape[0] != -1
    endpoint = Endpoint(
        url=url,
        input=images.name,
        output=logits.name,
        datatype=images.datatype,  # type: ignore[arg-type]
        rows=images.shape[0] if fixed else rows or Endpoint.model_fields["rows"].default,
        fixed=fixed,
        platform=metadata.platform[:MOST_SERVER],
        server=f"{about.get('name', '')} {about.get('version', '')}".strip()[:MOST_SERVER],
    )
    remote = Remote(endpoint, classes=classes, policy=policy)
    try:
        for _ in range(2):
            remote(torch.zeros(1, *input_shape))
    finally:
        remote.close()
    return endpoint.model_copy(update={"answer": remote.answer})


def remotes(network: nn.Module) -> Iterator[Remote]:
    """The endpoints that a network asks."""
    return (module for module in network.modules() if isinstance(module, Remote))
