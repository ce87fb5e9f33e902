"""The memory of the API over many plans and verifications."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.machine.connection import HttpConnection
from benchmarks.machine.deployment import SHAPE, TRIVIAL, Deployment
from benchmarks.machine.growth import growth
from benchmarks.machine.service import body, certification, png
from benchmarks.progress import bar
from benchmarks.result import Figure, Result

SEVERAL = 200
"""The certificates that are verified in turn, each with a budget and a radius of its own."""
EVERY = 50
"""The calls after which memory is looked at."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=10_000, help="plans, and as many verifications")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> Result:
    with Deployment() as deployment:
        seen = asyncio.run(call(deployment, options))
    middle, last = growth(seen)
    return Result(
        name="memory",
        compares=f"memory of the API over {options.calls:,} plans and as many verifications",
        columns=("when", "MB"),
        rows=[("at the start", round(seen[0])), ("in the middle", round(middle)), ("at the end", round(last))],
        figures=[Figure("memory of the API, end / middle", last / middle, at_most=1.05)],
        notes=("Mean of a fifth of the run in its middle, and of its last fifth.",),
    )


async def call(deployment: Deployment, options: argparse.Namespace) -> list[float]:
    """The megabytes of the API, looked at again and again during the calls."""
    connection, rng = await HttpConnection.open(deployment.port), np.random.default_rng(options.seed)
    plans, image, seen = questions(rng), png(np.full(SHAPE, 200, np.uint8)), []
    posted = [await certification(connection, body(images=[image], **next(plans))) for _ in range(SEVERAL)]
    certificates = [json.dumps(each["certificates"][0]).encode() for each in posted]
    with bar() as progress:
        for number in progress.track(range(options.calls)):
            if number % EVERY == 0:
                seen.append(deployment.resident_bytes("API") / (1 << 20))
            planned = await connection.ask("POST", "/v1/plan", json.dumps(next(plans)).encode())
            verified = await connection.ask("POST", "/v1/verify", certificates[number % SEVERAL])
            for answer in (planned, verified):
                if answer.status != 200:
                    raise ValueError(f"HTTP {answer.status}: {answer.payload}")
    connection.close()
    return seen


def questions(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Plans of several procedures, with a budget and a radius that come but once."""
    while True:
        most, radius = int(rng.integers(500, 20_000)), round(float(rng.uniform(0.05, 0.6)), 6)
        procedures: list[dict[str, Any]] = [
            {"name": "sequential", "max_samples": most},
            {"name": "sequential", "max_samples": most, "abandon": "lost-certificate"},
            {"name": "adaptive", "stages": [most // 10, most]},
        ]
        yield {"procedure": procedures[rng.integers(3)], "radius": radius, "sigma": 0.25, "ensemble": TRIVIAL}
