"""A queue in which a million certifications wait: the time of a submission, a look and a cancellation.

No worker runs meanwhile. Those that wait are entries of the queue without a record: a million records would not fit in
the memory that a service may use for them. The ones that are measured are real.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np

from benchmarks.machine.connection import HttpAnswer, HttpConnection
from benchmarks.machine.deployment import POOL, Deployment
from benchmarks.machine.service import LIGHT
from benchmarks.progress import bar, console
from benchmarks.result import Figure, Result
from store import bookkeeping, keys
from store.waiting import ANONYMOUS

PIECE = 10_000
"""The entries that are written at a time."""
GOAL_MS = 10.0
URL = "/v1/certifications"
STEPS = ("submit", "GET", "cancel")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--waiting", type=int, default=1_000_000, help="certifications that wait")
    parser.add_argument("--requests", type=int, default=500, help="certifications that are measured")


def run(options: argparse.Namespace) -> Result:
    console.print("starting a server, the API and a worker, which then leaves ...", style="dim")
    with Deployment(queue_length=2 * options.waiting + 2 * options.requests) as deployment:
        deployment.stop("worker 0")
        few = asyncio.run(measure(deployment.port, options.requests))
        fill(deployment, options.waiting)
        many = asyncio.run(measure(deployment.port, options.requests))
        left = deployment.waiting()
    rows = [(step, *percentiles(few[step]), *percentiles(many[step])) for step in STEPS]
    return Result(
        name="waiting",
        compares=f"milliseconds of a request where nothing waits, and where {options.waiting:,} certifications wait",
        columns=("request", "p50, none", "p95, none", "p50", "p95"),
        rows=rows,
        figures=[Figure(f"{step}: p95, ms", row[-1], at_most=GOAL_MS) for step, row in zip(STEPS, rows, strict=True)],
        notes=(
            f"One client; {left:,} entries in RQ's list at the end.",
            (__doc__ or "").split("\n\n")[1].replace("\n", " "),
        ),
    )


def fill(deployment: Deployment, count: int) -> None:
    """Let as many entries wait, before everything else."""
    lane, list_ = keys.waiting(POOL, ANONYMOUS), bookkeeping.waiting_key(bookkeeping.queue_name(POOL))
    with deployment.redis as redis, bar() as progress:
        redis.zadd(keys.turns(POOL), {ANONYMOUS: 0}, nx=True)
        for start in progress.track(range(0, count, PIECE)):
            names = [f"waiting-{place:012}" for place in range(start, min(count, start + PIECE))]
            redis.zadd(lane, {name: start + place for place, name in enumerate(names)})
            redis.rpush(list_, *names)


async def measure(port: int, requests: int) -> dict[str, list[float]]:
    """The milliseconds of each step, of certifications that are submitted, looked at and canceled."""
    connection, spent = await HttpConnection.open(port), {step: list[float]() for step in STEPS}

    async def timed(step: str, ask: Callable[[], Awaitable[HttpAnswer]]) -> HttpAnswer:
        began = time.perf_counter()
        answer = await ask()
        spent[step].append(1000 * (time.perf_counter() - began))
        if answer.status not in (200, 202):
            raise ValueError(f"{step}: HTTP {answer.status}: {answer.payload}")
        return answer

    ids = [(await timed("submit", lambda: connection.ask("POST", URL, LIGHT))).payload["id"] for _ in range(requests)]
    for each in ids:
        await timed("GET", lambda: connection.ask("GET", f"{URL}/{each}"))  # noqa: B023
    for each in ids:
        await timed("cancel", lambda: connection.ask("POST", f"{URL}/{each}/cancel"))  # noqa: B023
    connection.close()
    return spent


def percentiles(values: list[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    return float(np.percentile(values, 50)), float(np.percentile(values, 95))
