"""The paper's own way to certify an ensemble, in transcription, against our engine: adaptive stages and K-consensus.

The transcription follows the paper's algorithms as a script runs them: one image after the other, eager networks, fresh
samples in every stage, and the members that a consensus makes unnecessary are left out sample by sample. It runs in a
process of its own, as a script does. Both sides have the same weights, images, noise, stages, alpha, beta and K; the
noise is drawn anew.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.machine.script import script
from benchmarks.progress import bar
from benchmarks.result import Figure, Result
from models.data import load_images
from models.registry import ZOO, load
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, AnyProcedure, Optimal, Sequential
from smoothcert.question import Question

ENSEMBLE, SIGMA, K = "cifar10-resnet20-gaussian-0.25", 0.25, 2
ALPHA, BETA, N0 = 0.001, 0.001, 100
BATCH = 256
GOAL_RADIUS, GOAL = 0.25, 8.0
"""The radius at which our best procedure is to be this many times faster than the transcription."""
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", default="100", help="of the shipped sheet: one number, or one for each radius")
    parser.add_argument("--radius", default="0.25,0.5,0.75", help="target radii, with commas")
    parser.add_argument("--stages", default="100,1000,10000,120000", help="the paper's schedule")
    parser.add_argument("--device", default="cpu")


@dataclass
class Toll:
    """What certifying all images took, and the classes that were certified, None for an abstention."""

    seconds: float = 0.0
    samples: int = 0
    evaluations: int = 0
    classes: list[int | None] = field(default_factory=list)


def run(options: argparse.Namespace) -> Result:
    ensemble = load(ENSEMBLE, device=options.device).with_(consensus=K)
    sheet = torch.from_numpy(load_images(ZOO / "cifar10-test-100.json").pixels)
    networks = [member.network.eval() for member in ensemble.members]
    stages = tuple(int(n) for n in options.stages.split(","))
    ours: dict[str, AnyProcedure] = {
        "adaptive": Adaptive(n0=N0, stages=stages),
        "lost-certificate": Sequential(n0=N0, max_samples=sum(stages), abandon="lost-certificate"),
        "optimal": Optimal(max_samples=sum(stages)),
    }
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    for radius, count in questions(options.radius, options.images):
        pixels = sheet[:count]
        with script() as process:
            theirs = process.submit(transcribed, networks, pixels.to(ensemble.device), radius, stages).result()
        rows.append((radius, len(pixels), "the paper's loop", round(theirs.seconds, 1), 1, *_means(theirs), ""))
        gains = {}
        for name, procedure in ours.items():
            console.print(f"r = {radius}: {name} ...", style="dim")
            tally = through_engine(ensemble, pixels, Question(Gaussian(SIGMA), procedure, radius, ALPHA, BETA))
            gains[name] = theirs.seconds / tally.seconds
            differ = sum(a != b for a, b in zip(theirs.classes, tally.classes, strict=True))
            rows.append(
                (radius, len(pixels), name, round(tally.seconds, 1), round(gains[name], 2), *_means(tally), differ)
            )
        best = max(gains["lost-certificate"], gains["optimal"])
        goal = GOAL if radius == GOAL_RADIUS else None
        figures.append(Figure(f"r = {radius}: the paper's loop / the faster of our two tests", best, at_least=goal))
    return Result(
        name="peers-adaptive",
        compares=f"{ENSEMBLE}, K = {K}, stages {options.stages}, on {options.device}",
        columns=(
            "r",
            "images",
            "who",
            "seconds",
            "times faster",
            "samples/image",
            "evaluations/image",
            "certified",
            "decide otherwise",
        ),
        rows=rows,
        figures=figures,
        notes=(
            f"{torch.get_num_threads()} threads. Each setting ran once, one after the other. Noise is drawn anew, so "
            "images whose p_A is close to a boundary may be decided otherwise by chance.",
        ),
    )


def questions(radii: str, images: str) -> list[tuple[float, int]]:
    """Each radius, and the number of images that it is asked for."""
    targets, counts = [float(text) for text in radii.split(",")], [int(text) for text in images.split(",")]
    if len(counts) not in (1, len(targets)):
        raise DomainError(
            f"{len(targets)} radii take one number of images or {len(targets)}, got {len(counts)}: {images}"
        )
    return list(zip(targets, counts * (len(targets) if len(counts) == 1 else 1), strict=True))


def _means(tally: Toll) -> tuple[int, int, int]:
    """Samples and evaluations for an image, and the images that were certified."""
    images = len(tally.classes)
    certified = sum(found is not None for found in tally.classes)
    return round(tally.samples / images), round(tally.evaluations / images), certified


def through_engine(ensemble: Ensemble, pixels: Tensor, question: Question) -> Toll:
    """All images at once through our engine; boundaries are computed within the time."""
    began = time.perf_counter()
    with Engine(ensemble) as engine:
        certificates = certify(engine, pixels.float() / 255, question)
    return Toll(
        time.perf_counter() - began,
        sum(each.samples for each in certificates),
        sum(each.evaluations or 0 for each in certificates),
        [each.class_index if each.decision == "certified" else None for each in certificates],
    )


@torch.no_grad()
def transcribed(members: Sequence[nn.Module], pixels: Tensor, radius: float, stages: Sequence[int]) -> Toll:
    """CertifyAdp of every image with K-consensus, as the paper's algorithms say it."""
    tally = Toll()
    generator = torch.Generator(pixels.device).manual_seed(0)
    began = time.perf_counter()
    with bar() as progress:
        for image in progress.track(pixels.float() / 255, description=f"the paper's loop, r = {radius}"):
            sample = _sampler(members, image, tally, generator)
            tally.classes.append(_certify_adaptive(sample, radius, stages))
    tally.seconds = time.perf_counter() - began
    return tally


def _certify_adaptive(sample: Callable[[int], Tensor], radius: float, stages: Sequence[int]) -> int | None:
    """The class, or None for an abstention; the paper's CertifyAdp."""
    noise, s = Gaussian(SIGMA), len(stages)
    c_a = int(sample(N0).argmax())
    for i, n in enumerate(stages, start=1):
        count = int(sample(n)[c_a])
        if noise.radius(lower_bound(count, n, ALPHA / s)) >= radius:
            return c_a
        if i < s and noise.radius(upper_bound(count, n, BETA / (s - 1))) < radius:
            return None
    return None


def _sampler(
    members: Sequence[nn.Module], image: Tensor, tally: Toll, generator: torch.Generator
) -> Callable[[int], Tensor]:
    """The paper's SampleUnderNoise for the soft vote of the members with K-consensus: class counts of n samples."""

    def sample(n: int) -> Tensor:
        counts = torch.zeros(10, dtype=torch.int64)
        for start in range(0, n, BATCH):
            rows = min(BATCH, n - start)
            noise = torch.randn((rows, *image.shape), generator=generator, device=image.device)
            noisy = image + SIGMA * noise
            first = torch.stack([member(noisy) for member in members[:K]])
            each = first.argmax(-1)
            classes = each[0].clone()
            left = (each != each[0]).any(0).nonzero().squeeze(1)
            if len(left):
                others = torch.stack([member(noisy[left]) for member in members[K:]])
                classes[left] = torch.cat([first[:, left], others]).mean(0).argmax(-1)
            counts += torch.bincount(classes.cpu(), minlength=10)
            tally.evaluations += K * rows + (len(members) - K) * len(left)
        tally.samples += n
        return counts

    return sample
