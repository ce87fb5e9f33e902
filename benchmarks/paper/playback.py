"""Certificates from tapes: those that the engine would have given, image by image."""

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
from benchmarks.result import Result
from models.data import Images
from smoothcert.certificate import Certificate, InputRecord
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Shape
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.run import Handle, Sampled
from smoothcert.errors import DomainError
from smoothcert.procedures import run
from smoothcert.procedures.protocol import ClassCounts
from smoothcert.question import Question


def certify(tape: Tape, question: Question, ensemble: Ensemble) -> Certificate:
    """The certificate that the engine gives for the same image, seed and index, except for the times.

    A tape holds classes and no scores, so a vote on it never ends early: the evaluations are those of all members that
    K-consensus leaves. All questions read the same tape, so the noise is not bound to the question, and the certificate
    has format 1.
    """
    if question.noise != tape.tapes.noise:
        raise DomainError(
            f"the noise of the tape is {tape.tapes.noise.label}, and that of the question is {question.noise.label}: "
            "they must be the same"
        )
    began = datetime.now(UTC)
    view, tally = tape.tapes.view(ensemble), Tally()

    def sample(n: int) -> ClassCounts:
        votes = tape.votes(view, tally.samples, tally.samples + n)
        tally.samples += n
        tally.evaluations += votes.evaluations
        tally.undecided += votes.undecided
        return np.bincount(votes.classes, minlength=len(ensemble.classes) + 1)

    verdict = run(question.start(), sample)
    shape = Shape(0, tally.samples, tape.rows, tape.rows if tally.undecided else None)
    record = InputRecord(sha256=tape.pixels.sha256, shape=tape.pixels.shape)
    case = Case(question, ensemble, record, tape.tapes.seed, tape.index, Handle(), began, bound=False)
    return case.certificate(Sampled(verdict, tally.evaluations, (shape,), (), datetime.now(UTC)))


@dataclass
class Tally:
    """What a procedure has read from a tape so far."""

    samples: int = 0
    evaluations: int = 0
    undecided: int = 0


@dataclass
class Spent:
    """The cost of recording, over the images that were not complete before."""

    images: int = 0
    evaluations: int = 0
    seconds: float = 0.0

    def add(self, tape: Tape, seconds: float) -> None:
        """Count an image that is complete now, unless nothing had to be recorded for it."""
        if tape.evaluations:
            self.images += 1
            self.evaluations += tape.evaluations
            self.seconds += seconds

    def left(self, images: int) -> timedelta:
        """The time that so many more images take, at the pace of those before."""
        return timedelta(seconds=round(self.seconds / self.images * images))


def play(
    tapes: Tapes, settings: Sequence[Setting], images: Images, *, done: Sequence[int], spent: Spent
) -> Iterator[tuple[int, int, Certificate]]:
    """Yield (place of the image, place of the setting, certificate), all settings of an image before the next image.

    The first `done` images of each setting are left out. A tape is named by the index of its image in the data set, so
    that every choice of images shares the same tapes.
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
                cost = f"image {tape.index}: {tape.evaluations:,} evaluations in {time.monotonic() - began:.0f} s"
                console.print(f"{cost}; {i + 1} of {len(images)}, {spent.left(len(images) - i - 1)} left", style="dim")


def record(tapes: Tapes, settings: Sequence[Setting], images: Images, name: str) -> Result:
    """Fill the tapes with what these settings need, and report the cost."""
    spent = Spent()
    for _ in play(tapes, settings, images, done=[0] * len(settings), spent=spent):
        pass
    pace = spent.evaluations / spent.seconds if spent.images else 0.0
    return Result(
        name=name,
        compares=f"the cost of recording {tapes.ensemble.name} for {len(settings)} settings",
        columns=("images", "recorded now", "evaluations", "seconds", "evaluations/s"),
        rows=[(len(images), spent.images, spent.evaluations, round(spent.seconds, 1), round(pace))],
        figures=[],
    )
