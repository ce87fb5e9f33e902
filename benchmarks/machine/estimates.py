"""The time that a plan expects for one image, against the time that the image takes through the service."""

from __future__ import annotations

import argparse
import base64
import io
import json
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.console import Console

from benchmarks.machine.deployment import Deployment, make_zoo
from benchmarks.result import Figure, Result
from models.addition import Addition, add
from models.architectures import build
from models.data import load_images
from models.registry import ZOO

SHIPPED = "cifar10-resnet20-gaussian-0.25"
LARGE = "resnet18-224"
"""The name of an ensemble for images of 224 pixels. Its weights are random, since only their time counts."""
ARCHITECTURE = "torchvision/resnet18"
MEMBERS = 2
QUESTION = {"radius": 0.25, "procedure": "optimal"}
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", type=int, default=20, help="single images for each ensemble")


def run(options: argparse.Namespace) -> Result:
    rows, figures = [], []
    with tempfile.TemporaryDirectory(prefix="smoothcert-") as made:
        zoo = make_zoo(Path(made) / "zoo")
        add_large(zoo, Path(made))
        console.print("starting a server, the API and a worker ...", style="dim")
        with Deployment(zoo=zoo, ensembles=f"{SHIPPED},{LARGE}") as deployment:
            for name, images in ((SHIPPED, shipped(options.images)), (LARGE, large(options.images))):
                console.print(f"certifying {len(images)} images of {name} ...", style="dim")
                pairs = [timed(deployment, name, image) for image in images]
                ratios = sorted(real / expected for expected, real in pairs)
                expected, real = (median(column) for column in zip(*pairs, strict=True))
                rows.append((name, len(pairs), expected, real, median(ratios), ratios[0], ratios[-1]))
                figures += [
                    Figure(f"{name}: median of real / expected", median(ratios), at_least=0.5),
                    Figure(f"{name}: the same from above", median(ratios), at_most=2.0),
                ]
    return Result(
        name="estimates",
        compares="the time that a plan expects for a single image with the time until its certificate arrives",
        columns=("ensemble", "images", "expected, s", "real, s", "median ratio", "least", "largest"),
        rows=rows,
        figures=figures,
        notes=("The plan is asked for right before each image. It does not know the image: it expects a clear one.",),
    )


def timed(deployment: Deployment, ensemble: str, image: bytes) -> tuple[float, float]:
    """The seconds that the plan expects for an image, and those that it takes."""
    question = {"ensemble": ensemble, **QUESTION}
    expected = post(deployment, "/v1/plan", question)["seconds"]["expected"]
    begun = time.perf_counter()
    posted = {**question, "images": [base64.b64encode(image).decode()]}
    found = post(deployment, "/v1/certifications", posted)
    while found["status"] in ("queued", "running"):
        with urllib.request.urlopen(  # noqa: S310
            urllib.request.Request(f"{deployment.url}{found['urls']['self']}", headers={"Prefer": "wait=30"})  # noqa: S310
        ) as answer:
            found = json.load(answer)
    real = time.perf_counter() - begun
    if found["status"] != "succeeded":
        raise ValueError(f"a certification of {ensemble} is {found['status']}: {found['error']}")
    return expected, real


def post(deployment: Deployment, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310
        f"{deployment.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


def shipped(count: int) -> list[bytes]:
    """The first sample images of the shipped ensemble."""
    pixels = load_images(ZOO / "cifar10-test-100.json").pixels[:count]
    return [encoded(np.asarray(each).transpose(1, 2, 0)) for each in pixels]


def large(count: int) -> list[bytes]:
    """Photographs of nothing: smooth random colours."""
    random = np.random.default_rng(1)
    coarse = [Image.fromarray(random.integers(0, 256, (7, 7, 3), dtype=np.uint8)) for _ in range(count)]
    return [encoded(np.asarray(each.resize((224, 224), Image.Resampling.BICUBIC))) for each in coarse]


def encoded(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of an image [H, W, C] of bytes."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def add_large(zoo: Path, folder: Path) -> None:
    """Add the ensemble for large images to a zoo."""
    files = []
    for number in range(MEMBERS):
        torch.manual_seed(number)
        files.append(folder / f"large-{number}.pt")
        torch.save(build(ARCHITECTURE, classes=10).state_dict(), files[-1])
    addition = Addition(
        classes=tuple(f"class {i}" for i in range(10)),
        input_shape=(3, 224, 224),
        architecture=ARCHITECTURE,
        sigma=0.25,
        method="random weights",
    )
    add(LARGE, files, addition, zoo=zoo)
