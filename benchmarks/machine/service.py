"""The whole service over loopback, in real processes, against the engine alone: overhead, throughput, packing."""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from rich.console import Console

from benchmarks.machine.connection import HttpConnection
from benchmarks.machine.deployment import SHAPE, TRIVIAL, Deployment
from benchmarks.machine.echo import PATH as ECHO
from benchmarks.machine.echo import EchoService
from benchmarks.result import Figure, Result
from models.data import load_images
from models.registry import ZOO, load
from smoothcert.attestation.envelope import MEDIA_TYPE, is_envelope
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question

SHIPPED = "cifar10-resnet20-gaussian-0.25"
NOISE = Gaussian(0.25)
"""The noise of the shipped ensemble."""
ROUNDS = 5
"""The rounds of each measurement; the best one counts, since other work on the machine only adds time."""
CLIENTS = 32
"""The clients that measure the throughput at once."""
MEGABYTE = 1 << 20
EASY_SAMPLES = 400
"""The most samples of an image whose work is much the same with every seed."""
console = Console(stderr=True, highlight=False)

Ask = Callable[[HttpConnection, bytes], Coroutine[Any, Any, Any]]
"""Sends a request and waits for its result."""
Row = tuple[str, object, object, object]
Measured = tuple[list[Row], list[Figure]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=200, help="requests of one client for the overhead")
    parser.add_argument("--burst", type=int, default=2_000, help="certifications of a throughput round")
    parser.add_argument("--samples", type=int, default=4_000, help="samples of the long request")


def run(options: argparse.Namespace) -> Result:
    rows: list[Row] = []
    figures: list[Figure] = []
    console.print("starting a server, the API and a worker ...", style="dim")
    with Deployment() as deployment:
        time.sleep(1)
        memory = deployment.resident_bytes("API") / MEGABYTE
        rows.append(("memory of the idle API, MB", round(memory), "", ""))
        figures.append(Figure("idle memory of the API, MB", memory, at_most=150))
        parts: dict[str, Callable[[], Measured]] = {
            "overhead": lambda: overhead(deployment, options.requests),
            "echo": lambda: against_echo(deployment, options.requests, options.burst),
            "signature": lambda: signature(deployment, options.requests),
            "archive": lambda: archive(deployment, options.requests),
            "throughput": lambda: throughput(deployment, options.burst),
            "packing": lambda: packing(deployment),
            "efficiency": lambda: efficiency(deployment, options.samples),
        }
        for name, part in parts.items():
            console.print(f"measuring {name} ...", style="dim")
            more_rows, more_figures = part()
            rows += more_rows
            figures += more_figures
        after = deployment.resident_bytes("API") / MEGABYTE
        rows.append(("memory of the API after all of it, MB", round(after), "", ""))
    return Result(
        name="service",
        compares="requests over HTTP, through the queue and a worker process, with the engine alone",
        columns=("what", "this", "that", "ratio"),
        rows=rows,
        figures=figures,
        notes=(
            "Clients, API, server and worker share the cores. Both sides of a ratio take turns for five rounds, and "
            "the best round of each counts: other work on the machine only adds time.",
        ),
    )


def overhead(deployment: Deployment, requests: int) -> Measured:
    """The time of one request beyond that of the engine, which its certificate tells."""

    async def ask() -> list[float]:
        connection = await HttpConnection.open(deployment.port)
        spent = []
        for _ in range(requests + 20):
            begun = time.perf_counter()
            answer = await certification(connection, LIGHT)
            spent.append(time.perf_counter() - begun - engine_seconds(answer))
        connection.close()
        return spent[20:]

    medians = [median(asyncio.run(ask())) * 1000 for _ in range(ROUNDS)]
    best, middle = round(min(medians), 2), round(median(medians), 2)
    row = ("one client, trivial ensemble: ms beyond the engine's own, best and median round", best, middle, "")
    return [row], [Figure("overhead of a request, ms: median of the best of five rounds", min(medians))]


def against_echo(deployment: Deployment, requests: int, burst: int) -> Measured:
    """A request, and 32 clients at once, compared with a bare service of FastAPI and RQ that returns what it gets."""

    async def echoed(connection: HttpConnection, request: bytes) -> Any:
        status, payload = await connection.post(ECHO, request)
        if status != 200:
            raise ValueError(f"HTTP {status}: {payload}")
        return payload

    async def one(port: int, ask: Ask) -> float:
        connection, spent = await HttpConnection.open(port), []
        for _ in range(requests):
            begun = time.perf_counter()
            answer = await ask(connection, LIGHT)
            engine = engine_seconds(answer) if ask is certification else 0.0
            spent.append(time.perf_counter() - begun - engine)
        connection.close()
        return median(spent) * 1000

    async def many(port: int, ask: Ask) -> None:
        async def client() -> None:
            connection = await HttpConnection.open(port)
            for _ in range(burst // CLIENTS):
                await ask(connection, LIGHT)
            connection.close()

        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    with EchoService() as echo:
        sides: tuple[tuple[int, Ask], ...] = ((deployment.port, certification), (echo.port, echoed))
        alone = [[asyncio.run(one(port, ask)) for port, ask in sides] for _ in range(ROUNDS)]
        rates = [[burst / timed(many(port, ask))[0] for port, ask in sides] for _ in range(ROUNDS)]
    ms, echo_ms = (median(side) for side in zip(*alone, strict=True))
    rate, echo_rate = (median(side) for side in zip(*rates, strict=True))
    rows: list[Row] = [
        ("one client: ms beyond the engine's own, of a bare echo; median round", ms, echo_ms, ms / echo_ms),
        (f"{CLIENTS} clients: certifications/s, echoes/s; median round", rate, echo_rate, rate / echo_rate),
    ]
    return rows, [
        Figure("overhead of a request / of a bare echo, median of five rounds", ms / echo_ms, at_most=1.5),
        Figure("throughput / of a bare echo, median of five rounds", rate / echo_rate, at_least=0.8),
    ]


def signature(deployment: Deployment, requests: int) -> Measured:
    """The time of fetching a certificate with its signature beyond that of fetching it without."""

    async def ask() -> tuple[float, float]:
        connection = await HttpConnection.open(deployment.port)
        path = f"/v1/certifications/{(await certification(connection, LIGHT))['id']}"
        spent: dict[str, list[float]] = {"": [], f"Accept: {MEDIA_TYPE}\r\n": []}
        for _ in range(requests + 20):
            for headers, seconds in spent.items():
                begun = time.perf_counter()
                answer = await connection.ask("GET", path, headers=headers)
                seconds.append(time.perf_counter() - begun)
                if answer.status != 200 or is_envelope(answer.payload) != bool(headers):
                    raise ValueError(f"HTTP {answer.status}: {answer.payload}")
        connection.close()
        plain, signed = (median(seconds[20:]) * 1000 for seconds in spent.values())
        return plain, signed

    rounds = [asyncio.run(ask()) for _ in range(ROUNDS)]
    plain, signed = min(rounds, key=lambda each: each[1] - each[0])
    row = (
        "a certificate fetched with its signature, and without: ms",
        round(signed, 2),
        round(plain, 2),
        signed / plain,
    )
    return [row], [Figure("a signature adds, ms: median of the best of five rounds", signed - plain, at_most=5)]


def archive(deployment: Deployment, requests: int) -> Measured:
    """What a second service, which is the same with an archive in a folder, takes longer for a certificate.

    The time until the archive has all of them is that of catching up, several at a time, beside everything else.
    """

    async def ask(port: int) -> float:
        connection, spent = await HttpConnection.open(port), []
        for _ in range(requests):
            begun = time.perf_counter()
            answer = await certification(connection, LIGHT)
            spent.append(time.perf_counter() - begun - engine_seconds(answer))
        connection.close()
        return median(spent) * 1000

    added, caught_up = [], []
    with TemporaryDirectory(prefix="archive-") as folder, Deployment(archive=Path(folder)) as archiving:
        asyncio.run(ask(archiving.port))
        for _ in range(ROUNDS):
            plain = asyncio.run(ask(deployment.port))
            begun = time.perf_counter()
            added.append(asyncio.run(ask(archiving.port)) - plain)
            while archiving.unarchived():
                time.sleep(0.005)
            caught_up.append((time.perf_counter() - begun) / requests * 1000)
        kept = len([*Path(folder).glob("certifications/*/*.json")])
    if kept != (ROUNDS + 1) * requests:
        raise ValueError(f"the archive has {kept} certifications, {(ROUNDS + 1) * requests} have ended")
    rows: list[Row] = [
        ("with an archive, beyond without one: ms of a request, best and median round", min(added), median(added), ""),
        ("a request until the archive has it: ms, best and median round", min(caught_up), median(caught_up), ""),
    ]
    return rows, [Figure("an archive adds, ms: median of the median round", median(added), at_most=5)]


def throughput(deployment: Deployment, burst: int) -> Measured:
    """The certifications per second of 32 clients. Those that do not succeed count as lost."""

    async def client(requests: int) -> int:
        connection = await HttpConnection.open(deployment.port)
        answered = 0
        for _ in range(requests):
            answered += (await certification(connection, LIGHT))["status"] == "succeeded"
        connection.close()
        return answered

    async def all_clients() -> int:
        return sum(await asyncio.gather(*(client(burst // CLIENTS) for _ in range(CLIENTS))))

    rates, lost, sent = [], 0, burst // CLIENTS * CLIENTS
    for _ in range(ROUNDS):
        seconds, answered = timed(all_clients())
        rates.append(sent / seconds)
        lost += sent - answered
    rows: list[Row] = [
        (f"{CLIENTS} clients, trivial ensemble: certifications/s, best and median", max(rates), median(rates), ""),
        ("certifications lost", lost, ROUNDS * sent, ""),
    ]
    figures = [
        Figure("certifications per second, best of five rounds", max(rates)),
        Figure("certifications lost", lost, at_most=0),
    ]
    return rows, figures


def packing(deployment: Deployment) -> Measured:
    """16 clients with an image each, compared with one request with the same 16 images."""
    images = [png(image) for image in asyncio.run(easy_images(deployment, 16))]

    async def one(images: list[str]) -> int:
        connection = await HttpConnection.open(deployment.port)
        answer = await certification(connection, body(SHIPPED, images, procedure="sequential", radius=0.25))
        connection.close()
        return sum(each["evaluations"] for each in answer["certificates"])

    async def apart() -> int:
        return sum(await asyncio.gather(*(one([image]) for image in images)))

    separate, together = [], []
    for _ in range(ROUNDS):
        separate.append(timed(apart()))
        together.append(timed(one(images)))
    ratio = min(seconds for seconds, _ in separate) / min(seconds for seconds, _ in together)
    per_evaluation = min(s / n for s, n in separate) / min(s / n for s, n in together)
    rows: list[Row] = [
        ("16 clients with an image each, one with 16: seconds", min(separate)[0], min(together)[0], round(ratio, 3)),
        ("the same by evaluation: seeds differ, and with them the samples", "", "", round(per_evaluation, 3)),
    ]
    return rows, [Figure("16 requests of one image / one of 16, time", ratio, at_most=1.15)]


async def easy_images(deployment: Deployment, count: int) -> npt.NDArray[np.uint8]:
    """The first `count` shipped images that take at most EASY_SAMPLES samples, [count, C, H, W]."""
    pixels = load_images(ZOO / "cifar10-test-100.json").pixels
    connection, found = await HttpConnection.open(deployment.port), []
    for start in range(0, len(pixels), 10):
        images = [png(image) for image in pixels[start : start + 10]]
        request = body(SHIPPED, images, procedure={"name": "sequential", "max_samples": 2_000}, radius=0.25)
        answer = await certification(connection, request)
        found += [start + each["index"] for each in answer["certificates"] if each["samples"] <= EASY_SAMPLES]
        if len(found) >= count:
            break
    connection.close()
    return pixels[found[:count]]


def efficiency(deployment: Deployment, samples: int) -> Measured:
    """The time of one long request, compared with the engine in this process while the worker rests."""
    pixels = load_images(ZOO / "cifar10-test-100.json").pixels[:4]
    images, n = [png(image) for image in pixels], samples // 4
    question = Question(NOISE, Fixed(n=n))

    async def ask() -> None:
        connection = await HttpConnection.open(deployment.port)
        answer = await certification(connection, body(SHIPPED, images, procedure={"name": "fixed", "n": n}))
        if answer["status"] != "succeeded":
            raise ValueError(f"the long request ended as {answer['status']}: {answer['error']}")
        connection.close()

    through, alone = [], []
    with Engine(load(SHIPPED)) as engine:
        certify(engine, torch.from_numpy(pixels[:1]), Question(NOISE, Fixed(n=200)))
        for _ in range(ROUNDS):
            through.append(timed(ask())[0])
            begun = time.perf_counter()
            certify(engine, torch.from_numpy(pixels), question)
            alone.append(time.perf_counter() - begun)
    ratio = min(alone) / min(through)
    row = (f"{4 * n:,} samples: seconds through the service, of the engine alone", min(through), min(alone), ratio)
    return [row], [Figure("efficiency of the service on a long request", ratio, at_least=0.85)]


async def certification(connection: HttpConnection, request: bytes) -> Any:
    """Post a request and wait for the certification at its end; ValueError if that takes more than 60 s."""
    status, payload = await connection.post("/v1/certifications", request, "Prefer: wait=60\r\n")
    if status not in (200, 202):
        raise ValueError(f"HTTP {status}: {payload}")
    if status == 202:
        raise ValueError(f"no result within 60 s: {payload['status']}, {payload['progress']}")
    return payload


def engine_seconds(answer: Any) -> float:
    """The time from start to finish that the first certificate states."""
    times = answer["certificates"][0]["provenance"]
    begun, ended = (datetime.fromisoformat(times[name]) for name in ("started_at", "finished_at"))
    return (ended - begun).total_seconds()


def body(ensemble: str, images: list[Any], **fields: Any) -> bytes:
    return json.dumps({"ensemble": ensemble, "images": images, **fields}).encode()


def png(image: npt.NDArray[np.uint8]) -> str:
    """An image [C, H, W] as a PNG file in base64."""
    file = io.BytesIO()
    Image.fromarray(image.transpose(1, 2, 0)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


LIGHT = body(TRIVIAL, [png(np.full(SHAPE, 200, np.uint8))], procedure="sequential", radius=0.25)
"""A request that takes few samples of a trivial ensemble."""


def timed(work: Coroutine[Any, Any, int] | Coroutine[Any, Any, None]) -> tuple[float, int]:
    """The seconds that a coroutine takes, and its value (0 for None)."""
    begun = time.perf_counter()
    value = asyncio.run(work)
    return time.perf_counter() - begun, value or 0
