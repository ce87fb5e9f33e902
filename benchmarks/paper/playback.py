"""Certificates from tapes: what the engine would have certified, image by image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import torch

from benchmarks.paper.setting import Setting
from benchmarks.paper.tape import Tape, Tapes
from benchmarks.progress import bar, console
from benchmarks.report import Report
from models.data import Images
from smoothcert.certificate import Certificate, InputRecord
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Shape
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import pixels_sha256
from smoothcert.engine.run import Handle, Sampled
from smoothcert.errors import DomainError
from smoothcert.procedures import run
from smoothcert.procedures.protocol import ClassCounts
from smoothcert.question import Question


def certify(tape: Tape, question: Question, ensemble: Ensemble) -> Certificate:
    """The certificate that the engine gives for the same image, seed and index, but for the times."""
    if question.noise.sigma != tape.tapes.sigma:
        raise DomainError(f"a tape of sigma {tape.tapes.sigma}, and a question about {question.noise.sigma}")
    began = datetime.now(UTC)
    view, heard = tape.tapes.view(ensemble), Tally()

    def sample(n: int) -> ClassCounts:
        more = tape.hear(view, heard.samples, heard.samples + n)
        heard.samples += n
        heard.evaluations += more.evaluations
        heard.undecided += more.undecided
        return np.bincount(more.classes, minlength=len(ensemble.classes) + 1)

    procedure = question.procedure.start(question.noise, question.radius, alpha=question.alpha, beta=question.beta)
    verdict = run(procedure, sample)
    shape = Shape(0, heard.samples, tape.rows, tape.rows if heard.undecided else None)
    record = InputRecord(sha256=pixels_sha256(tape.pixels), shape=tuple(tape.pixels.shape))
    asked = Case(question, ensemble, record, tape.tapes.seed, tape.index, Handle(), began)
    return asked.certificate(Sampled(verdict, heard.evaluations, (shape,), datetime.now(UTC)))


@dataclass
class Tally:
    """What a procedure has heard so far."""

    samples: int = 0
    evaluations: int = 0
    undecided: int = 0


@dataclass
class Spent:
    """What recording cost, over the images that were not complete before."""

    images: int = 0
    evaluations: int = 0
    seconds: float = 0.0

    def add(self, tape: Tape, seconds: float) -> None:
        """An image that is complete now."""
        if tape.evaluations:
            self.images += 1
            self.evaluations += tape.evaluations
            self.seconds += seconds

    def left(self, images: int) -> timedelta:
        """Until so many more are complete, if they take as long as those before."""
        return timedelta(seconds=round(self.seconds / self.images * images))


def play(
    tapes: Tapes, settings: Sequence[Setting], images: Images, *, done: Sequence[int], spent: Spent
) -> Iterator[tuple[int, int, Certificate]]:
    """(image, setting, certificate) by their places, all settings of an image before the next.

    The first `done` images of each setting are left out. An image is known by its index in its data set, so that every
    choice of images shares the same tapes.
    """
    order = sorted(range(len(settings)), key=lambda j: tapes.view(settings[j].ensemble).turn)
    with bar() as progress:
        for i in progress.track(range(min(done), len(images)), description="images"):
            began = time.monotonic()
            with tapes.open(torch.from_numpy(images.pixels[i]), int(images.indices[i])) as tape:
                for j in order:
                    if done[j] <= i:
                        yield i, j, certify(tape, settings[j].question, settings[j].ensemble)
            spent.add(tape, time.monotonic() - began)
            if tape.evaluations and not console.is_terminal:
                said = f"image {tape.index}: {tape.evaluations:,} evaluations in {time.monotonic() - began:.0f} s"
                console.print(f"{said}; {i + 1} of {len(images)}, {spent.left(len(images) - i - 1)} left", style="dim")


def record(tapes: Tapes, settings: Sequence[Setting], images: Images, name: str) -> Report:
    """Fill the tapes with what these settings need, and say what it cost."""
    spent = Spent()
    for _ in play(tapes, settings, images, done=[0] * len(settings), spent=spent):
        pass
    pace = spent.evaluations / spent.seconds if spent.images else 0.0
    return Report(
        name=name,
        compares=f"what it cost to record {tapes.ensemble.name} for {len(settings)} settings",
        columns=("images", "recorded now", "evaluations", "seconds", "evaluations/s"),
        rows=[(len(images), spent.images, spent.evaluations, round(spent.seconds, 1), round(pace))],
        figures=[],
    )
