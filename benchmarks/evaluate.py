"""The paper's tables for an ensemble: certify images through the engine and judge the certificates.

Each combination of procedure, radius and ensemble size k is a row of the table and a file of certificates, one JSON
line for each image, in FOLDER. A second run goes on where the first one stopped and ends with the same certificates.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.report import Report
from models.data import Images, load_images
from models.ensemble import Ensemble
from models.registry import ZOO, load
from models.selection import Selection
from smoothcert.certificate import Certificate
from smoothcert.evaluation import (
    Judged,
    average_certified_radius,
    certified_accuracy,
    consensus_rate,
    disagreements,
    sample_reduction,
    stage_shares,
)
from smoothcert.ledger import Ledger
from smoothcert.noise import Gaussian
from smoothcert.plot import COLOURS, finish, pyplot
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Sequential
from workers.certification import Certification, Question, new_seed, start
from workers.engine import Engine

SHIPPED = ZOO / "cifar10-test-100.json"
RADII = (0.0, 0.25, 0.5, 0.75)
IN_FLIGHT = 64
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    """What to certify, how, and where the certificates go."""
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--images", default="shipped", help="shipped, PATH, or PATH:SELECTION (data/cifar10:0::20)")
    parser.add_argument("--procedure", default="adaptive", help=f"one or more of {', '.join(PROCEDURES)}, with commas")
    parser.add_argument("--radius", default="0.25", help="target radii, with commas; the fixed procedure has none")
    parser.add_argument("--k", default="", help="ensemble sizes, with commas; by default all members")
    parser.add_argument("--consensus", type=int, help="K; by default the full vote")
    parser.add_argument("--voting", default="soft")
    parser.add_argument("--sigma", type=float, help="by default that of the ensemble's training")
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--beta", type=float, default=0.001)
    parser.add_argument("--n", type=int, default=100_000, help="samples of the fixed procedure")
    parser.add_argument("--timed", type=int, default=1_000, help="samples that measure what one of Certify's costs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the certificates")


PROCEDURES = ("fixed", "adaptive", "kept", "strict", "lost")


def procedure_of(name: str, n: int) -> AnyProcedure:
    """A procedure by its short name."""
    match name:
        case "fixed":
            return Fixed(n=n)
        case "adaptive" | "kept":
            return Adaptive(keep_samples=name == "kept")
        case "strict":
            return Sequential(abandon="strict")
        case "lost":
            return Sequential(abandon="lost-certificate")
    raise SystemExit(f"--procedure {name!r} is none of {', '.join(PROCEDURES)}")


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    ensemble: Ensemble
    question: Question

    @property
    def label(self) -> str:
        """Names the row and its file."""
        radius = "" if self.question.radius is None else f"-r{self.question.radius:g}"
        consensus = "" if self.ensemble.consensus is None else f"-K{self.ensemble.consensus}"
        return f"{self.name}{radius}-k{len(self.ensemble.members)}{consensus}"


@dataclass(frozen=True)
class Evaluated:
    """A setting, its certificates in the order of the images, and the seconds it took."""

    setting: Setting
    judged: list[Judged]
    seconds: float

    @property
    def fixed(self) -> bool:
        """Whether it is Certify, which has no target."""
        return self.setting.question.radius is None

    @property
    def k(self) -> int:
        """Members."""
        return len(self.setting.ensemble.members)


def run(options: argparse.Namespace) -> Report:
    """Every setting, then the table."""
    ensemble = load(options.ensemble, zoo=options.zoo, device=options.device, batch=options.batch)
    ensemble = ensemble.with_(voting=options.voting, consensus=None)
    images = chosen_images(options.images)
    if images.classes != ensemble.classes:
        raise SystemExit(f"the images have the classes {images.classes}, the ensemble {ensemble.classes}")
    evaluated = []
    with Engine(ensemble, batch=options.batch) as engine:
        per_sample = {
            k: certify_seconds_per_sample(engine, ensemble.first_k(k), options.timed) for k in sizes(options, ensemble)
        }
        for setting in settings(options, ensemble):
            evaluated.append(evaluate(engine, setting, images, options.out / f"{setting.label}.jsonl"))
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        write_csv(evaluated, images, options.write / "evaluate.csv")
        plot(evaluated, options.write / "evaluate.png")
    return report(evaluated, per_sample, images, options)


def chosen_images(spec: str) -> Images:
    """`shipped`, PATH, or PATH:SELECTION."""
    if spec == "shipped":
        return load_images(SHIPPED)
    path, _, selection = spec.partition(":")
    images = load_images(Path(path))
    return images.pick(Selection(selection).places(len(images))) if selection else images


def sizes(options: argparse.Namespace, ensemble: Ensemble) -> list[int]:
    """The ensemble sizes asked for."""
    return [int(k) for k in options.k.split(",")] if options.k else [len(ensemble.members)]


def settings(options: argparse.Namespace, ensemble: Ensemble) -> Iterator[Setting]:
    """Every combination asked for; the fixed procedure appears once for each k."""
    noise = Gaussian(options.sigma or ensemble.sigma or 0.0)
    for k, name in itertools.product(sizes(options, ensemble), options.procedure.split(",")):
        view = ensemble.first_k(k).with_(consensus=options.consensus)
        radii = [None] if name == "fixed" else [float(r) for r in options.radius.split(",")]
        for radius in radii:
            question = Question(noise, procedure_of(name, options.n), radius, options.alpha, options.beta)
            yield Setting(name, view, question)


def evaluate(engine: Engine, setting: Setting, images: Images, path: Path) -> Evaluated:
    """Certify the images that the ledger does not have yet, and judge all of them."""
    with Ledger(path, run_of(setting, images), once={"seed": new_seed()}) as ledger, bar() as progress:
        task = progress.add_task(setting.label, total=len(images), completed=len(ledger.lines))
        began = time.monotonic()
        for i, certificate in certified(engine, setting, images, ledger.run["seed"], len(ledger.lines)):
            now = time.monotonic()
            said = {"image": int(images.indices[i]), "label": int(images.labels[i]), "seconds": round(now - began, 4)}
            ledger.append({**said, "certificate": certificate.model_dump(mode="json")})
            began = now
            progress.advance(task)
        judged = [Judged(Certificate.model_validate(line["certificate"]), line["label"]) for line in ledger.lines]
        return Evaluated(setting, judged, sum(line["seconds"] for line in ledger.lines))


def run_of(setting: Setting, images: Images) -> dict[str, object]:
    """What makes a ledger that of this setting and no other."""
    question, ensemble = setting.question, setting.ensemble
    return {
        "ensemble": ensemble.digest,
        "voting": ensemble.voting,
        "consensus": ensemble.consensus,
        "precision": ensemble.precision,
        "images": images.digest,
        "noise": vars(question.noise),
        "procedure": question.procedure.model_dump(mode="json"),
        "radius": question.radius,
        "alpha": question.alpha,
        "beta": question.beta,
    }


def certified(
    engine: Engine, setting: Setting, images: Images, seed: str, first: int
) -> Iterator[tuple[int, Certificate]]:
    """The certificates of the images from `first` on, in order, with a window of them in flight."""
    flying: deque[tuple[int, Certification]] = deque()
    for i in range(first, len(images)):
        pixels = torch.from_numpy(images.pixels[i])
        flying.append((i, start(engine, pixels, setting.question, seed=seed, index=i, ensemble=setting.ensemble)))
        if len(flying) == IN_FLIGHT:
            place, certification = flying.popleft()
            yield place, certification.result()
    for place, certification in flying:
        yield place, certification.result()


def certify_seconds_per_sample(engine: Engine, ensemble: Ensemble, samples: int) -> float:
    """What a sample of Certify costs in this very run: the full vote, in full batches."""
    question = Question(Gaussian(0.25), Fixed(n=samples))
    pixels = torch.full(ensemble.input_shape, 0.5)
    start(engine, pixels, Question(Gaussian(0.25), Fixed(n=1)), seed="warm", ensemble=ensemble).result()
    began = time.monotonic()
    start(engine, pixels, question, seed="time", ensemble=ensemble).result()
    return (time.monotonic() - began) / (samples + question.procedure.n0)


def report(
    evaluated: list[Evaluated], per_sample: dict[int, float], images: Images, options: argparse.Namespace
) -> Report:
    """The table of the paper, and how often two procedures disagree."""
    accuracies = [f"r={r:g}" for r in RADII]
    columns = ("setting", "ACR", *accuracies, "samples", "evaluations", "SampleRF", "TimeRF", "KCR", "ASC/ASA by stage")
    notes = [
        f"{len(images)} images of {images.name}; certified accuracy in percent of all images; samples and evaluations "
        "are means over the images; SampleRF and TimeRF are against Certify with n = 100,000 and the full vote, whose "
        "time per sample was measured in the same run; KCR includes the samples of the selection.",
        *(f"{each.setting.label} can prove radii up to {cap(each):.6f}." for each in evaluated if each.fixed),
        *disagreement_notes(evaluated),
    ]
    compares = f"the certificates of {options.ensemble} by procedure, radius and size"
    return Report("evaluate", compares, columns, [row(each, per_sample) for each in evaluated], (), notes)


def row(each: Evaluated, per_sample: dict[int, float]) -> tuple[object, ...]:
    """One line of the table."""
    judged = each.judged
    certificates = [one.certificate for one in judged]
    target = each.setting.question.radius
    accuracies = [round(certified_accuracy(judged, r), 1) if target is None or r <= target else "" for r in RADII]
    certify_seconds = 100_100 * len(judged) * per_sample[each.k]
    kcr = consensus_rate(judged)
    shares = " ".join(f"{s.certified:.0f}/{s.abandoned:.0f}" for s in stage_shares(judged)[:5])
    return (
        each.setting.label,
        round(average_certified_radius(judged), 3),
        *accuracies,
        round(sum(c.samples for c in certificates) / len(judged), 1),
        round(sum(c.evaluations or 0 for c in certificates) / len(judged), 1),
        round(sample_reduction(judged), 2),
        round(certify_seconds / each.seconds, 2),
        "" if kcr is None else round(kcr, 1),
        shares if each.setting.name in ("adaptive", "kept") else "",
    )


def cap(each: Evaluated) -> float:
    """The largest radius within reach of a setting."""
    question = each.setting.question
    return question.procedure.largest_radius(question.noise, alpha=question.alpha)


def disagreement_notes(evaluated: list[Evaluated]) -> list[str]:
    """Pairs of settings that decide the same radius for the same members."""
    notes = []
    for one, other in itertools.combinations(evaluated, 2):
        radii = {each.setting.question.radius for each in (one, other)} - {None}
        if one.k == other.k and len(radii) == 1:
            (radius,) = radii
            count = disagreements(one.judged, other.judged, float(radius or 0))
            notes.append(f"{one.setting.label} and {other.setting.label} disagree at r = {radius:g} on {count} images.")
    return notes


def write_csv(evaluated: list[Evaluated], images: Images, path: Path) -> None:
    """One row for each image and setting."""
    columns = ("class_index", "radius", "samples", "evaluations", "stop_reason")
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("setting", "image", "label", *columns))
        for each in evaluated:
            for index, judged in zip(images.indices, each.judged, strict=True):
                values = (getattr(judged.certificate, column) for column in columns)
                table.writerow((each.setting.label, index, judged.label, *values))


def plot(evaluated: list[Evaluated], path: Path) -> None:
    """Certified accuracy over radius, ACR over k, samples per image."""
    figure, (accuracy, acr, samples) = pyplot().subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    for each, colour in zip(evaluated, itertools.cycle(COLOURS), strict=False):
        most = cap(each) if each.setting.question.radius is None else each.setting.question.radius
        radii = [most * i / 200 for i in range(201)]
        values = [certified_accuracy(each.judged, r) for r in radii]
        accuracy.plot(radii, values, color=colour, label=each.setting.label)
        drawn = sorted((judged.certificate.samples for judged in each.judged), reverse=True)
        shares = [100 * (i + 1) / len(drawn) for i in range(len(drawn))]
        samples.plot(shares, drawn, color=colour, label=each.setting.label)
    for name in dict.fromkeys(each.setting.name for each in evaluated):
        same = [each for each in evaluated if each.setting.name == name]
        points = sorted((each.k, average_certified_radius(each.judged)) for each in same)
        acr.plot(*zip(*points, strict=True), "o-", label=name)
    accuracy.set(xlabel="radius", ylabel="certified accuracy, %", ylim=(0, 100))
    acr.set(xlabel="members k", ylabel="average certified radius")
    samples.set(xlabel="share of images, %", ylabel="samples at least", yscale="log")
    finish(figure, (accuracy, acr, samples), path)


def bar() -> Progress:
    """Images done, and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
