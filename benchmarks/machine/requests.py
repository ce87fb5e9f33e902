"""The requests of many different clients: sizes, procedures, cancels, repeated and bad requests, in a seeded order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.machine.deployment import SHAPE, TRIVIAL
from benchmarks.machine.service import SHIPPED, body, png
from models.data import load_images
from models.registry import ZOO

Kind = Literal["certify", "cancel", "repeat", "bad"]
KINDS: tuple[Kind, ...] = ("certify", "cancel", "repeat", "bad")
SHARES = (0.76, 0.08, 0.06, 0.10)
"""The share of each kind."""
SHORT: tuple[dict[str, Any], ...] = (
    {"procedure": "sequential", "radius": 0.25},
    {"procedure": {"name": "sequential", "abandon": "lost-certificate", "max_samples": 2_000}, "radius": 0.5},
    {"procedure": {"name": "adaptive", "stages": [100, 1_000]}, "radius": 0.25},
    {"procedure": {"name": "fixed", "n": 500}},
)
"""Questions of which none takes minutes, whatever the image."""
LONG = {"procedure": {"name": "fixed", "n": 5_000_000}}
"""The question of a request that is canceled: without the cancel it would go on for long."""


@dataclass(frozen=True)
class ClientRequest:
    """One request, and how its client behaves."""

    kind: Kind
    body: bytes


class RequestStream:
    """An endless stream of requests; the same seed gives the same stream."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._shipped = [png(image) for image in load_images(ZOO / "cifar10-test-100.json").pixels]
        self._trivial = [png(np.full(SHAPE, grey, np.uint8)) for grey in range(0, 256, 5)]

    def __iter__(self) -> Iterator[ClientRequest]:
        return self

    def __next__(self) -> ClientRequest:
        kind = self._rng.choice(KINDS, p=SHARES)
        if kind == "bad":
            return ClientRequest(kind, self._bad())
        if kind == "cancel":
            return ClientRequest(kind, body(TRIVIAL, self._some(self._trivial, 1), **LONG))
        return ClientRequest(kind, self._good())

    def pause(self, rate: float) -> float:
        """The random seconds until the next client comes, for clients that come at this rate on average."""
        return float(self._rng.exponential(1 / rate))

    def _good(self) -> bytes:
        if self._rng.random() < 0.9:
            images = self._some(self._trivial, int(self._rng.choice([1, 4, 16, 64])))
            return body(TRIVIAL, images, **SHORT[self._rng.integers(len(SHORT))])
        sequential = {"procedure": {"name": "sequential", "max_samples": 1_000}, "radius": 0.25}
        return body(SHIPPED, self._some(self._shipped, int(self._rng.choice([1, 2]))), **sequential)

    def _bad(self) -> bytes:
        good = self._good()
        fields = json.loads(good)
        ways = (
            good[: len(good) // 2],
            json.dumps(fields | {"ensemble": "not-served"}).encode(),
            json.dumps(fields | {"alpha": 2}).encode(),
            json.dumps(fields | {"images": [fields["images"][0][:40]]}).encode(),
            json.dumps(fields | {"procedure": "adaptive", "radius": 50.0}).encode(),
        )
        return ways[self._rng.integers(len(ways))]

    def _some(self, images: list[str], count: int) -> list[str]:
        return [images[place] for place in self._rng.integers(len(images), size=count)]
