"""The paper's tables for an ensemble: certify images through the engine and judge the certificates.

Each combination of procedure, radius and members is a row of the table and a file of certificates, one JSON line for
each image, in FOLDER. A second run continues where the first one stopped and ends with the same certificates.
`smoothcert report FILE` makes a page of such a file, and `smoothcert compare` compares two.

With --tape, the members see each sample once for all settings (see `benchmarks.paper.tape`), and later runs with other
settings find it on the tapes: run --k and --alone first, and --consensus after that. --record only fills the tapes,
which several processes can do, each with its own --images; a run without it then makes the table and runs no member.
The counts are those of the engine. The time of a setting is computed from its evaluations and the time of one.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.paper.drawing import plot
from benchmarks.paper.evaluation import report, write_csv
from benchmarks.paper.noise import add_noise_options, chosen_noise
from benchmarks.paper.playback import Spent, play, record
from benchmarks.paper.setting import Evaluated, Setting, alone
from benchmarks.paper.tape import Tapes
from benchmarks.paper.uncertainty import uncertainty
from benchmarks.progress import bar, console
from benchmarks.result import Result
from models.data import Images
from models.data.choice import chosen_images
from models.errors import DataError
from models.ranking import refuse_holdout
from models.registry import ZOO, describe, load
from smoothcert.certificate import Certificate
from smoothcert.engine.case import Case, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.form import RUNTIMES
from smoothcert.evaluation import Judged
from smoothcert.ledger import Ledger
from smoothcert.noise import Noise
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Largest, Optimal, Sequential
from smoothcert.question import Question
from smoothcert.seeds import new_seed

IN_FLIGHT = 64
"""The number of images in the engine at once: enough to fill its batches until the last of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument(
        "--images",
        default="shipped",
        help="shipped, PATH, either with :SELECTION (data/cifar10:0::20), or a SELECTION of shipped",
    )
    parser.add_argument("--procedure", default="adaptive", help=f"one or more of {', '.join(PROCEDURES)}, with commas")
    parser.add_argument(
        "--radius", default="0.25", help="target radii, with commas; fixed and largest have none, curve takes all"
    )
    parser.add_argument("--k", default="", help="ensemble sizes, with commas; by default all members")
    parser.add_argument("--alone", action="store_true", help="also every member on its own")
    parser.add_argument("--consensus", type=int, help="K, where there are more members; by default the full vote")
    parser.add_argument("--voting", default="soft")
    add_noise_options(parser)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--beta", type=float, default=0.001)
    parser.add_argument("--n", type=int, default=100_000, help="samples of fixed, and the most of largest")
    parser.add_argument(
        "--stages",
        default="100,1000,10000,120000",
        help="of the adaptive procedure; the sequential ones and optimal get their sum",
    )
    parser.add_argument("--timed", type=int, default=2_000, help="samples that measure the cost of one of Certify's")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--runtime", default="torch", help=f"what computes the members: {', '.join(RUNTIMES)}")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tape", type=Path, metavar="FOLDER", help="let the settings share recordings kept here")
    parser.add_argument("--record", action="store_true", help="only fill the tapes: no certificates, no table")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the certificates")
    parser.add_argument("--name", default="evaluate", help="name of the table and of its files (default: %(default)s)")


PROCEDURES = ("fixed", "largest", "curve", "adaptive", "kept", "strict", "lost", "optimal")
"""The short names of the procedures, which also name their rows and files; `curve` is `optimal` with all radii."""


def procedure_of(name: str, n: int, stages: tuple[int, ...], radii: tuple[float, ...]) -> AnyProcedure:
    match name:
        case "fixed":
            return Fixed(n=n)
        case "adaptive" | "kept":
            return Adaptive(stages=stages, keep_samples=name == "kept")
        case "strict":
            return Sequential(max_samples=sum(stages), abandon="strict")
        case "lost":
            return Sequential(max_samples=sum(stages), abandon="lost-certificate")
        case "optimal":
            return Optimal(max_samples=sum(stages))
        case "curve":
            return Optimal(max_samples=sum(stages), radii=radii)
        case "largest":
            return Largest(max_samples=n)
    raise SystemExit(f"--procedure must be one or more of {', '.join(PROCEDURES)}; got {name!r}")


def run(options: argparse.Namespace) -> Result:
    check_destination(options)
    description = describe(options.ensemble, zoo=options.zoo)
    images = chosen_images(options.images, description)
    if images.classes != description.classes:
        raise DataError(f"the images have the classes {images.classes}, the ensemble {description.classes}")
    refuse_holdout(description.ranking, images)
    ensemble = load(
        options.ensemble,
        zoo=options.zoo,
        device=options.device,
        precision=options.precision,
        runtime=options.runtime,
        batch=options.batch,
    )
    ensemble = ensemble.with_(voting=options.voting, consensus=None)
    chosen = list(settings(options, ensemble))
    if options.tape is None:
        evaluated = through_engine(options, ensemble, chosen, images)
    else:
        tapes = Tapes(options.tape, ensemble, chosen_noise(options, ensemble), options.batch)
        if options.record:
            return record(tapes, chosen, images, options.name)
        evaluated = from_tapes(options, tapes, chosen, images)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        write_csv(evaluated, images, options.write / f"{options.name}.csv")
        plot(evaluated, options.write / f"{options.name}.png")
    made = replace(report(evaluated, images, description, options.name), tables=[uncertainty(evaluated)])
    if options.tape is None:
        return made
    note = f"Seed of the noise: `{tapes.seed}`; as the file `seed` of an empty folder of tapes it gives these counts."
    return replace(made, notes=[*made.notes, note])


def check_destination(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other before anything is computed."""
    if options.record and (options.tape is None or options.write or options.check):
        raise SystemExit("error: --record only fills the tapes: it needs --tape and does not take --write or --check")
    if options.out is None and not options.record:
        raise SystemExit("error: --out FOLDER is needed, for the certificates")


def through_engine(
    options: argparse.Namespace, ensemble: Ensemble, chosen: list[Setting], images: Images
) -> list[Evaluated]:
    """Certify with one setting after the other."""
    with Engine(ensemble, batch=options.batch) as engine:
        sizes = sorted({len(setting.ensemble.members) for setting in chosen})
        noise = chosen_noise(options, ensemble)
        costs = {k: certify_seconds_per_sample(engine, ensemble.first_k(k), noise, options.timed) for k in sizes}
        return [evaluate(engine, setting, images, options.out / f"{setting.label}.jsonl", costs) for setting in chosen]


def from_tapes(options: argparse.Namespace, tapes: Tapes, chosen: list[Setting], images: Images) -> list[Evaluated]:
    """Certify with all settings together, image by image."""
    pace = seconds_per_evaluation(tapes, options)
    with ExitStack() as stack:
        ledgers = []
        for setting in chosen:
            run = {**run_of(setting, images), "tape": tapes.seed}
            ledger = Ledger(options.out / f"{setting.label}.jsonl", run, once={"evaluation_seconds": pace})
            ledgers.append(stack.enter_context(ledger))
        spent = Spent()
        for i, j, certificate in play(tapes, chosen, images, done=[len(ledger) for ledger in ledgers], spent=spent):
            seconds = (certificate.evaluations or 0) * ledgers[j].once["evaluation_seconds"]
            ledgers[j].append(line_of(images, i, seconds, certificate))
        console.print(f"{spent.evaluations:,} evaluations that were not on the tapes", style="dim")
        return [
            computed(setting, ledger, ledger.once["evaluation_seconds"])
            for setting, ledger in zip(chosen, ledgers, strict=True)
        ]


def computed(setting: Setting, lines: Iterable[dict[str, Any]], pace: float) -> Evaluated:
    """A setting whose time follows from its evaluations, at `pace` seconds each."""
    judged = judged_of(lines)
    evaluations = sum(each.certificate.evaluations or 0 for each in judged)
    return Evaluated(setting, judged, evaluations * pace, len(setting.ensemble.members) * pace, pace)


def settings(options: argparse.Namespace, ensemble: Ensemble) -> Iterator[Setting]:
    """Every combination of the options; a procedure without a target radius appears once for each choice of members."""
    noise = chosen_noise(options, ensemble)
    stages = tuple(int(n) for n in options.stages.split(","))
    radii = tuple(float(r) for r in options.radius.split(","))
    for (members, view), name in itertools.product(views(options, ensemble).items(), options.procedure.split(",")):
        procedure = procedure_of(name, options.n, stages, tuple(sorted(radii)))
        for radius in radii if procedure.targeted else [None]:
            yield Setting(name, members, view, Question(noise, procedure, radius, options.alpha, options.beta))


def views(options: argparse.Namespace, ensemble: Ensemble) -> dict[str, Ensemble]:
    """The choices of members by name: `k3` for the three best, `member2` for the second best alone."""
    members = len(ensemble.members)
    sizes = [int(k) for k in options.k.split(",")] if options.k else [members]
    found = {f"k{k}": ensemble.first_k(k).with_(consensus=_consensus(options.consensus, k, max(sizes))) for k in sizes}
    if options.alone:  # the first member alone is k1 already, if that is among the sizes
        found |= {f"member{i + 1}": alone(ensemble, i) for i in range(1 if 1 in sizes else 0, members)}
    return found


def _consensus(consensus: int | None, k: int, largest: int) -> int | None:
    """K for k members; None, the full vote, where k is too small for the K that the largest ensemble has."""
    return None if consensus is not None and k < consensus <= largest else consensus


def evaluate(engine: Engine, setting: Setting, images: Images, path: Path, costs: dict[int, float]) -> Evaluated:
    """Certify the images that the ledger does not have yet, and judge all of them."""
    once: dict[str, Any] = {"seed": new_seed(), "certify_seconds": costs[len(setting.ensemble.members)]}
    with Ledger(path, run_of(setting, images), once=once) as ledger, bar() as progress:
        task = progress.add_task(setting.label, total=len(images), completed=len(ledger))
        began = time.monotonic()
        for i, certificate in certified(engine, setting, images, ledger.once["seed"], len(ledger)):
            now = time.monotonic()
            ledger.append(line_of(images, i, now - began, certificate))
            began = now
            progress.advance(task)
        judged = judged_of(ledger)
        seconds = sum(line["seconds"] for line in ledger)
        console.print(f"{setting.label}: {len(judged)} images in {seconds:.0f} s", style="dim")
        return Evaluated(setting, judged, seconds, ledger.once["certify_seconds"])


def line_of(images: Images, i: int, seconds: float, certificate: Certificate) -> dict[str, object]:
    """The line of image i in a ledger."""
    line = {"image": int(images.indices[i]), "label": int(images.labels[i]), "seconds": round(seconds, 4)}
    return {**line, "certificate": certificate.model_dump(mode="json")}


def judged_of(lines: Iterable[dict[str, Any]]) -> list[Judged]:
    return [Judged(Certificate.model_validate(line["certificate"]), line["label"]) for line in lines]


def run_of(setting: Setting, images: Images) -> dict[str, object]:
    """Everything that tells the ledger of this setting from that of another run."""
    question, ensemble = setting.question, setting.ensemble
    return {
        "ensemble": ensemble.digest,
        "voting": ensemble.voting,
        "consensus": ensemble.consensus,
        "precision": ensemble.precision,
        "images": images.digest,
        "noise": question.noise.parameters(),
        "procedure": question.procedure.model_dump(mode="json"),
        "radius": question.radius,
        "alpha": question.alpha,
        "beta": question.beta,
        "tape": None,
    }


def certified(
    engine: Engine, setting: Setting, images: Images, seed: str, first: int
) -> Iterator[tuple[int, Certificate]]:
    """Yield (place, certificate) for the images from `first` on, in order, with IN_FLIGHT of them in the engine."""
    flying: deque[tuple[int, Case]] = deque()
    for i in range(first, len(images)):
        pixels = torch.from_numpy(images.pixels[i])
        flying.append((i, start(engine, pixels, setting.question, seed=seed, index=i, ensemble=setting.ensemble)))
        if len(flying) == IN_FLIGHT:
            place, case = flying.popleft()
            yield place, case.result()
    for place, case in flying:
        yield place, case.result()


def certify_seconds_per_sample(engine: Engine, ensemble: Ensemble, noise: Noise, samples: int) -> float:
    """The time of one sample of Certify in this very run: the full vote, in full batches."""
    question = Question(noise, Fixed(n=samples))
    pixels = torch.full(ensemble.input_shape, 128, dtype=torch.uint8)  # bytes suit every noise
    start(engine, pixels, Question(noise, Fixed(n=1)), seed="warm", ensemble=ensemble).result()
    began = time.monotonic()
    start(engine, pixels, question, seed="time", ensemble=ensemble).result()
    return (time.monotonic() - began) / (samples + question.procedure.n0)


def seconds_per_evaluation(tapes: Tapes, options: argparse.Namespace) -> float:
    """The time in which the engine runs one member on one sample, here and now: the best of three rounds."""
    ensemble = tapes.ensemble
    with Engine(ensemble, batch=options.batch) as engine:
        rounds = [certify_seconds_per_sample(engine, ensemble, tapes.noise, options.timed) for _ in range(3)]
    return min(rounds) / len(ensemble.members)
