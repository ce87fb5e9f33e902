"""Two keys at twice the load that the service can take, of which one floods it: how long the other waits.

The other key sends a quarter of what the service can take: first alone, then while the first key sends all the rest.
Clients come at random moments, whatever becomes of those before them. The goal is about the time from a request to its
certificate: two keys have a half of the service each, so twice the time is what they can be promised.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from app.http.authentication import digest, new_key
from benchmarks.machine.connection import HttpConnection
from benchmarks.machine.deployment import SHAPE, TRIVIAL, Deployment
from benchmarks.machine.service import body, png
from benchmarks.progress import console
from benchmarks.result import Figure, Result

SHARE = 0.25
"""The load of the other key, in capacities of the service."""
CLOSED_CLIENTS = 24
"""The clients of each key that measure the capacity."""
CAPACITY_S = 20.0
URL = "/v1/certifications"
REQUEST = body(TRIVIAL, [png(np.full(SHAPE, 200, np.uint8))], procedure={"name": "fixed", "n": 20_000})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=90.0, help="the time of each of the two loads")
    parser.add_argument("--times", type=float, default=2.0, help="the load of both keys, in capacities of the service")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> Result:
    chances = np.random.default_rng(options.seed).spawn(2)
    flooding, other = (Owner(name, rng) for name, rng in zip(("flooding", "other"), chances, strict=True))
    console.print("starting a server, the API and a worker ...", style="dim")
    with Deployment(api_keys=f"{flooding.entry},{other.entry}") as deployment:
        port = deployment.port
        capacity = asyncio.run(measure_capacity(port, (flooding, other)))
        console.print(f"capacity {capacity:.1f} requests/s; now {SHARE * capacity:.1f} of one key ...", style="dim")
        alone = asyncio.run(load(port, {other: SHARE * capacity}, options.seconds))[other]
        console.print("the same beside a flood ...", style="dim")
        both = {other: SHARE * capacity, flooding: (options.times - SHARE) * capacity}
        seen = asyncio.run(load(port, both, options.seconds))
    beside, flood = seen[other], seen[flooding]
    ratio = p95(beside.latencies) / p95(alone.latencies)
    return Result(
        name="owners",
        compares=f"two keys at {options.times:g} times the capacity of {capacity:.1f} requests/s, one of them flooding",
        columns=("who", "sent", "certified", "refused with 429", "p95 in the queue, s", "p95 until the certificate, s"),
        rows=[each.row(who) for who, each in (("alone", alone), ("beside a flood", beside), ("the flood", flood))],
        figures=[
            Figure("p95 until the certificate, beside a flood / alone", ratio, at_most=2),
            Figure("refused beside a flood", beside.statuses[429], at_most=0),
            Figure("answers 5xx", sum(each.errors for each in (alone, beside, flood)), at_most=0),
        ],
        notes=((__doc__ or "").split("\n\n")[1].replace("\n", " "),),
    )


@dataclass(eq=False)
class Owner:
    """A key, and the moments at which its clients come."""

    name: str
    rng: np.random.Generator
    key: str = field(default_factory=new_key)

    @property
    def entry(self) -> str:
        return f"{self.name}:{digest(self.key)}"

    @property
    def headers(self) -> str:
        return f"Authorization: Bearer {self.key}\r\nPrefer: wait=60\r\n"


@dataclass
class Seen:
    """What the clients of a key saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if status >= 500)

    def row(self, who: str) -> tuple[object, ...]:
        sent, refused = self.statuses.total(), self.statuses[429]
        return (who, sent, len(self.waits), refused, p95(self.waits), p95(self.latencies))

    def note(self, status: int, answer: Any, seconds: float) -> None:
        self.statuses[status] += 1
        if status == 200:
            created, started = (datetime.fromisoformat(answer[name]) for name in ("created_at", "started_at"))
            self.waits.append((started - created).total_seconds())
            self.latencies.append(seconds)


class Clients:
    """The clients of some keys, who share idle connections."""

    def __init__(self, port: int) -> None:
        self._port, self._idle = port, list[HttpConnection]()

    async def ask(self, owner: Owner, seen: Seen) -> None:
        connection = self._idle.pop() if self._idle else await HttpConnection.open(self._port)
        began = time.perf_counter()
        try:
            status, answer = await connection.post(URL, REQUEST, owner.headers)
        except (asyncio.IncompleteReadError, ConnectionError):  # the service closed it while it was idle
            connection = await HttpConnection.open(self._port)
            status, answer = await connection.post(URL, REQUEST, owner.headers)
        seen.note(status, answer, time.perf_counter() - began)
        self._idle.append(connection)


async def measure_capacity(port: int, owners: tuple[Owner, ...]) -> float:
    """The requests per second of a service that is busy and not overloaded."""
    clients, seen, end = Clients(port), Seen(), time.monotonic() + CAPACITY_S

    async def client(owner: Owner) -> None:
        while time.monotonic() < end:
            await clients.ask(owner, seen)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for owner in owners:
            for _ in range(CLOSED_CLIENTS):
                group.create_task(client(owner))
    return len(seen.waits) / (time.monotonic() - began)


async def load(port: int, rates: dict[Owner, float], seconds: float) -> dict[Owner, Seen]:
    """What the clients of each key see that come at these rates; all are waited for."""
    clients, seen, end = Clients(port), {owner: Seen() for owner in rates}, time.monotonic() + seconds

    async def come(owner: Owner, rate: float) -> None:
        while time.monotonic() < end:
            group.create_task(clients.ask(owner, seen[owner]))
            await asyncio.sleep(float(owner.rng.exponential(1 / rate)))

    async with asyncio.TaskGroup() as group:
        for owner, rate in rates.items():
            group.create_task(come(owner, rate))
    return seen


def p95(values: list[float]) -> float:
    return float(np.percentile(values, 95)) if values else float("nan")
