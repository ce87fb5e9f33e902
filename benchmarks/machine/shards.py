"""One certification over two workers of one thread each, compared with one such worker."""

from __future__ import annotations

import argparse
import asyncio
import time

from rich.console import Console

from benchmarks.machine.connection import HttpConnection
from benchmarks.machine.deployment import Deployment
from benchmarks.machine.service import SHIPPED, body, png
from benchmarks.result import Figure, Result
from models.data import load_images
from models.registry import ZOO

WAIT = "Prefer: wait=60\r\n"
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the best one counts")
    parser.add_argument("--images", type=int, default=64, help="images of the large request")
    parser.add_argument("--samples", type=int, default=400, help="samples for each of its images")
    parser.add_argument("--range", type=int, default=100_000, help="samples of the request with one image")
    parser.add_argument("--clients", type=int, default=16, help="clients with one image each")


def run(options: argparse.Namespace) -> Result:
    pixels = load_images(ZOO / "cifar10-test-100.json").pixels
    images = [png(pixels[place % len(pixels)]) for place in range(options.images)]
    procedure = {"name": "fixed", "n": options.samples}
    large = body(SHIPPED, images, procedure=procedure, consensus=2)
    single = [body(SHIPPED, [image], procedure=procedure, consensus=2) for image in images[: options.clients]]
    long = body(SHIPPED, images[:1], procedure={"name": "fixed", "n": options.range}, consensus=2)
    names = (
        f"one request of {options.images} images, {options.samples:,} samples each",
        f"one image, {options.range:,} samples",
        f"{options.clients} clients with an image each",
    )
    console.print("starting a service with one worker, and one with two ...", style="dim")
    shared = {"threads": 1, "ensembles": SHIPPED}
    with Deployment(workers=1, **shared) as one, Deployment(workers=2, **shared) as two:
        time.sleep(2)  # workers announce themselves one after the other
        best = {(name, side): float("inf") for name in names for side in (one, two)}
        for number in range(options.rounds):
            console.print(f"round {number + 1} ...", style="dim")
            for side in (one, two):
                for name, requests in zip(names, ([large], [long], single), strict=True):
                    best[name, side] = min(best[name, side], timed(side, requests))
    ratios = {name: best[name, two] / best[name, one] for name in names}
    return Result(
        name="shards",
        compares="the seconds of a request with two workers of one thread each, and with one",
        columns=("what", "two workers", "one worker", "ratio"),
        rows=[(name, best[name, two], best[name, one], round(ratios[name], 3)) for name in names],
        figures=[
            Figure(f"{names[0]}: two workers / one", ratios[names[0]], at_most=0.58),
            Figure(f"{names[1]}: two workers / one", ratios[names[1]], at_most=0.6),
            Figure(f"{names[2]}: two workers / one", ratios[names[2]], at_most=1.0),
        ],
        notes=(
            "Both services run at the same time and take turns; the best round of each counts, because other work on "
            "the machine only adds time. Clients, API and server share the cores with the workers.",
        ),
    )


def timed(deployment: Deployment, requests: list[bytes]) -> float:
    """The seconds until all requests, which are sent at once, have been answered with certificates."""

    async def ask(request: bytes) -> None:
        connection = await HttpConnection.open(deployment.port)
        answer = await connection.ask("POST", "/v1/certifications", request, WAIT)
        while answer.payload["status"] in ("queued", "running"):
            answer = await connection.ask("GET", f"/v1/certifications/{answer.payload['id']}", headers=WAIT)
        connection.close()
        if answer.payload["status"] != "succeeded":
            raise ValueError(f"a request was answered with HTTP {answer.status}: {answer.payload}")

    async def ask_all() -> None:
        await asyncio.gather(*map(ask, requests))

    begun = time.perf_counter()
    asyncio.run(ask_all())
    return time.perf_counter() - begun
