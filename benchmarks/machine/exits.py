"""What the early exit of a vote saves, in evaluations and in time, and whether another order of members saves more."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from benchmarks.result import Figure, Result
from models.data import Images, data_set, load_images
from models.registry import ZOO, load
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.run import Sampled
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.voting import lowest_argmax
from smoothcert.errors import DomainError
from smoothcert.noise import Noise
from smoothcert.procedures import Procedure
from smoothcert.procedures.protocol import draw
from smoothcert.verdict import Verdict

ENSEMBLES = {"cifar10-resnet20-gaussian-0.25": "cifar10-test-100", "mnist-lenet-replacement-0.8": "mnist-test-100"}
"""Shipped ensembles, and the images that they are measured on."""
ROUNDS = 3
"""The rounds in which both sides of a ratio take turns; the best of each counts, since other work only adds time."""
console = Console(stderr=True, highlight=False)

Row = tuple[str, object, object, object]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=40, help="samples of each image")
    parser.add_argument(
        "--images",
        type=Path,
        nargs="+",
        default=(),
        help="other images than the shipped 100: folders of data sets, of which the hold-outs are taken, or files; "
        "only the ensembles that take such images are measured",
    )
    parser.add_argument("--batch", type=int, default=256, help="samples of a batch")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; processor time is counted")


def run(options: argparse.Namespace) -> Result:
    torch.set_num_threads(options.threads)
    rows: list[Row] = []
    figures: list[Figure] = []
    given = [chosen_images(path) for path in options.images]
    for name, sheet in ENSEMBLES.items():
        ensemble = load(name, batch=options.batch)
        known = given or [load_images(ZOO / f"{sheet}.json")]
        found = next((each for each in known if each.shape == ensemble.input_shape), None)
        if found is None:
            continue
        images = list(torch.from_numpy(found.pixels))
        console.print(f"measuring {name} on {len(images)} images ...", style="dim")
        for part in (saved, order):
            more_rows, more_figures = part(ensemble, images, options)
            rows += more_rows
            figures += more_figures
    if not rows:
        seen = ", ".join(str(each.shape) for each in given)
        raise DomainError(f"the images have the shape {seen}, which no shipped ensemble takes")
    return Result(
        name="exits",
        compares="votes of all members, and votes that end as soon as no further member can change the class",
        columns=("what", "this", "that", "ratio"),
        rows=rows,
        figures=figures,
        notes=(
            f"Seconds are those of the processor, of {options.threads} thread(s). Both sides take turns for {ROUNDS} "
            f"rounds and the best of each counts. {options.samples} samples of each image, {_described(given)}. Every "
            f"class count is compared with the one that all members give; a difference would be an error.",
            "Orders of K-consensus: of all choices of the first K members whose classes agree with the full vote at "
            "least as often as those of the ranked order, the one with the fewest evaluations on every second image; "
            "the figures are of the other images.",
        ),
    )


def chosen_images(path: Path) -> Images:
    """The hold-out of a data set, on which the order of members is chosen, or the images of a file."""
    found = load_images(path)
    return found.pick(data_set(path).holdout.places(len(found))) if path.is_dir() else found


def _described(given: Sequence[Images]) -> str:
    return " and ".join(f"{len(each):,} images of {each.name}" for each in given) or "of the shipped sheets"


@dataclass(frozen=True)
class Unknown(Member):
    """A member whose logits may be anything, so that no vote ends before it is asked."""

    finite = False


def every_member(ensemble: Ensemble) -> Ensemble:
    unknown = (Unknown(each.name, each.identity, each.network, each.form) for each in ensemble.members)
    return replace(ensemble, members=tuple(unknown))


def saved(ensemble: Ensemble, images: Sequence[Tensor], options: argparse.Namespace) -> tuple[list[Row], list[Figure]]:
    """The evaluations and the seconds of softmax votes with and without the early exit, alone and with consensus."""
    k, figures = len(ensemble.members), []
    rows: list[Row] = []
    for consensus in (None, -(-k // 2)):
        view = ensemble.with_(voting="softmax", consensus=consensus)
        (early, quick), (full, slow) = both(view, images, options)
        if [each.verdict for each in early] != [each.verdict for each in full]:
            raise DomainError("a vote that ended early gave another class")
        fewer, more = (sum(each.evaluations for each in found) for found in (early, full))
        what = f"k = {k}, {'softmax votes' if consensus is None else f'softmax votes and {consensus}-consensus'}"
        rows += [
            (f"evaluations, {what}: early exit, without", fewer, more, round(fewer / more, 3)),
            (f"seconds, {what}: early exit, without", round(quick, 2), round(slow, 2), round(quick / slow, 3)),
        ]
        figures.append(Figure(f"share of evaluations saved, {what}", 1 - fewer / more, at_least=0.0))
        if consensus is None:
            gained = (1 - quick / slow) / (1 - fewer / more)
            figures.append(Figure(f"time saved / evaluations saved, {what}", gained, at_least=0.85))
    return rows, figures


Timed = tuple[list[Sampled], float]


def both(view: Ensemble, images: Sequence[Tensor], options: argparse.Namespace) -> tuple[Timed, Timed]:
    """What each way gives, and its best time."""
    found: list[list[Timed]] = [[], []]
    for _ in range(ROUNDS):
        for place, each in enumerate((view, every_member(view))):
            found[place].append(drive(each, images, options))
    best = [(rounds[0][0], min(seconds for _, seconds in rounds)) for rounds in found]
    return best[0], best[1]


def drive(view: Ensemble, images: Sequence[Tensor], options: argparse.Namespace) -> Timed:
    def draw_only() -> Procedure:
        counts = yield from draw(options.samples)
        return Verdict(None, 0.0, None, options.samples, "exhausted", (), counts)

    with Engine(view, batch=options.batch) as engine:
        began = time.process_time()
        noise = _noise(view)
        handles = [engine.submit(draw_only(), image, noise, "exits", index=i) for i, image in enumerate(images)]
        found = [handle.result() for handle in handles]
        return found, time.process_time() - began


def order(ensemble: Ensemble, images: Sequence[Tensor], options: argparse.Namespace) -> tuple[list[Row], list[Figure]]:
    """The evaluations of K-consensus in ranked order and in the order that takes fewest at equal agreement."""
    k, figures = len(ensemble.members), []
    rows: list[Row] = []
    voted, each = recorded(ensemble, images, options)
    chosen_on, judged_on = ([voted[i::2], each[:, i::2]] for i in (0, 1))
    for leading in range(2, k):
        ranked = Consensus.of(tuple(range(leading)), *chosen_on)
        others = [Consensus.of(first, *chosen_on) for first in combinations(range(k), leading)]
        best = min((c for c in others if c.agreement >= ranked.agreement), key=lambda c: c.evaluations)
        here, there = (Consensus.of(c.first, *judged_on) for c in (best, ranked))
        places = ", ".join(str(place + 1) for place in best.first)
        ratio = here.evaluations / there.evaluations
        rows += [
            (f"evaluations a sample, k = {k}, K = {leading}: first {places}; ranked order",
             round(here.evaluations, 3), round(there.evaluations, 3), round(ratio, 4)),
            (f"agreement with the full vote, k = {k}, K = {leading}: the same",
             round(here.agreement, 5), round(there.agreement, 5), round(here.agreement / there.agreement, 5)),
        ]  # fmt: skip
        if leading == -(-k // 2):
            figures.append(Figure(f"evaluations of another order / ranked order, k = {k}, K = {leading}", ratio))
    return rows, figures


@dataclass(frozen=True)
class Consensus:
    """The first K members, how many evaluations a sample takes with them, and how often the full vote is kept."""

    first: tuple[int, ...]
    evaluations: float
    agreement: float

    @classmethod
    def of(cls, first: tuple[int, ...], voted: Tensor, each: Tensor) -> Consensus:
        leading, k = each[list(first)], len(each)
        agreed = (leading == leading[0]).all(0)
        kept = ~agreed | (leading[0] == voted)
        evaluations = len(first) + (k - len(first)) * (1 - agreed.double().mean().item())
        return cls(first, evaluations, kept.double().mean().item())


def recorded(ensemble: Ensemble, images: Sequence[Tensor], options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """The classes of the full vote [images, samples], and of each member [k, images, samples]."""
    voted, each = [], []
    for i, image in enumerate(images):
        noisy = torch.empty(options.samples, *ensemble.input_shape)
        NoisyImage(_noise(ensemble), image, "exits", i).sample(noisy, 0)
        logits = ensemble.logits(noisy)
        voted.append(ensemble.vote(logits))
        each.append(lowest_argmax(logits))
    return torch.stack(voted), torch.stack(each, dim=1)


def _noise(ensemble: Ensemble) -> Noise:
    if ensemble.noise is None:
        raise DomainError(f"{ensemble.name} does not say for which noise it was trained")
    return ensemble.noise.on_bytes(ensemble.input_shape)
