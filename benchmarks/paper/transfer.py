"""A changed ensemble, certified from certificates of the old one: evaluations saved, and radius lost.

The old ensemble is a shipped one, and the new one is the same in another precision. The old one is certified once with
`fixed`; then the new one anew, and by `transfer`. Each run is a file of certificates in FOLDER, and goes on where it
was stopped. An image from which the old ensemble abstained counts as abstained from, and costs no evaluation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.paper.evaluate import line_of
from benchmarks.progress import bar, console
from benchmarks.result import Figure, Result
from models.data import Images
from models.data.choice import chosen_images
from models.ranking import refuse_holdout
from models.registry import ZOO, describe, load
from smoothcert.allocation import LOSS, allocate
from smoothcert.certificate import Certificate
from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.form import RUNTIMES
from smoothcert.engine.transfer import transfer
from smoothcert.estimate import Bootstrap
from smoothcert.evaluation import Judged
from smoothcert.ledger import Ledger
from smoothcert.noise import Noise
from smoothcert.procedures import Fixed, Transfer
from smoothcert.procedures.fixed import N
from smoothcert.question import Question
from smoothcert.seeds import new_seed
from smoothcert.verification import verify

SAVED, LOST = 3.0, 3.0
"""The goals: how many times fewer evaluations, and the percentage of the ACR that may be lost."""

Make = Callable[[Tensor, int, str], Certificate | None]
"""The certificate of an image, from its pixels, its place and the seed of the run; None if nothing can be made."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--images", default="shipped", help="shipped, or a SELECTION of it, such as 0::5")
    parser.add_argument("--precision", default="bfloat16", help="of the new ensemble; the old one runs in float32")
    parser.add_argument("--runtime", default="torch", help=f"what computes both ensembles: {', '.join(RUNTIMES)}")
    parser.add_argument("--n", type=int, default=N, help="samples of the fixed procedure")
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--loss", type=float, default=LOSS, help="the share of all radii together that may be lost")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", type=Path, metavar="FOLDER", required=True, help="folder for the certificates")


def lost_note(lost: int, drawn: int) -> str:
    """The sentence about the common samples that the old ensemble gives to its class and the new one does not."""
    if not drawn:
        return "There were no common samples, so the share that is lost was not measured."
    return f"On {100 * lost / drawn:.2f} % of the common samples, the old one gives its class and the new one does not."


def run(options: argparse.Namespace) -> Result:
    description = describe(options.ensemble, zoo=options.zoo)
    images = chosen_images(options.images, description)
    refuse_holdout(description.ranking, images)
    old, new = (
        load(options.ensemble, zoo=options.zoo, batch=options.batch, precision=precision, runtime=options.runtime)
        for precision in ("float32", options.precision)
    )
    noise = old.noise
    if noise is None:
        raise SystemExit(f"error: {options.ensemble} does not say for which noise it was trained")
    before = certificates("old", anew(old, noise, options), images, options)
    again = certificates("anew", anew(new, noise, options), images, options)
    moved = certificates("transfer", moving(old, new, before, options), images, options)
    for each in filter(None, moved):
        assert verify(each), each.digest
    return judge(before, again, moved, images, old, new, options)


def anew(ensemble: Ensemble, noise: Noise, options: argparse.Namespace) -> Make:
    """Certify with `fixed`; bytes get the exact noise of the same law."""
    engine = Engine(ensemble, batch=options.batch)

    def make(pixels: Tensor, place: int, seed: str) -> Certificate:
        question = Question(noise.on_bytes(tuple(pixels.shape)), Fixed(n=options.n), alpha=options.alpha)
        return start(engine, pixels, question, seed=seed, index=place).result()

    return make


def moving(old: Ensemble, new: Ensemble, before: list[Certificate | None], options: argparse.Namespace) -> Make:
    """Certify the new ensemble from the certificate of the old one for the same image."""
    plans = allocate([each for each in before if each], alpha=options.alpha, loss=options.loss)

    def make(pixels: Tensor, place: int, seed: str) -> Certificate | None:
        basis = before[place]
        assert basis is not None
        (found,) = transfer(
            old, new, [pixels], [basis], alpha=options.alpha, plans=[plans[place]], seed=f"{seed}-{place}",
            batch=options.batch,
        )  # fmt: skip
        return found

    return make


def certificates(name: str, make: Make, images: Images, options: argparse.Namespace) -> list[Certificate | None]:
    """The certificates of a run, of which those that were finished before are read from its file."""
    stated = {key: getattr(options, key) for key in ("ensemble", "precision", "runtime", "n", "alpha", "loss")}
    path, once = options.out / f"{name}.jsonl", {"seed": new_seed()}
    with Ledger(path, {"transfer": name, "images": images.digest, **stated}, once=once) as ledger, bar() as progress:
        task = progress.add_task(name, total=len(images), completed=len(ledger))
        for place in range(len(ledger), len(images)):
            began = time.monotonic()
            found = make(torch.from_numpy(images.pixels[place]), place, ledger.once["seed"])
            seconds = time.monotonic() - began
            ledger.append({"none": place} if found is None else line_of(images, place, seconds, found))
            progress.advance(task)
        console.print(f"{name}: {len(ledger)} images", style="dim")
        lines = [line.get("certificate") for line in ledger]
    return [None if line is None else Certificate.model_validate(line) for line in lines]


def judge(
    before: list[Certificate | None],
    again: list[Certificate | None],
    moved: list[Certificate | None],
    images: Images,
    old: Ensemble,
    new: Ensemble,
    options: argparse.Namespace,
) -> Result:
    radii = {
        name: [0.0 if each is None else Judged(each, int(label)).correct_radius
               for each, label in zip(found, images.labels, strict=True)]
        for name, found in (("old", before), ("anew", again), ("transfer", moved))
    }  # fmt: skip
    bootstrap = Bootstrap(len(images))
    spent = {name: sum(each.evaluations or 0 for each in found if each) for name, found in
             (("old", before), ("anew", again), ("transfer", moved))}  # fmt: skip
    joint = [each for each in moved if each and isinstance(each.procedure, Transfer) and each.procedure.joint]
    beside = sum(each.samples for each in joint) * len(old.members)
    rows = [
        (name, str(bootstrap.mean(radii[name])), spent[name], beside if name == "transfer" else 0) for name in radii
    ]
    kept = bootstrap.ratio(radii["transfer"], radii["anew"])
    lost = sum(each.stages[0].counts.other for each in joint)
    drawn = sum(each.samples for each in joint)
    return Result(
        name="transfer",
        compares=f"{options.ensemble} in {options.precision}: certified anew with n = {options.n:,}, and from float32",
        columns=("certificates", "ACR", "evaluations", "evaluations of the old one beside it"),
        rows=rows,
        figures=[
            Figure("evaluations anew / by transfer", spent["anew"] / max(1, spent["transfer"]), at_least=SAVED),
            Figure("ACR lost, %", 100 * (1 - kept.value), at_most=LOST),
        ],
        notes=[
            f"{len(images)} images of {images.name}. The old ensemble is computed by {old.runtime}, and the new one by "
            f"{new.runtime}. The share of the ACR that is kept is {kept}, by the paired "
            "bootstrap over images.",
            f"{len(joint)} images were transferred jointly, and {sum(each is not None for each in moved) - len(joint)} "
            f"counted anew with fewer samples, as the old certificate allows; {moved.count(None)} had nothing to "
            f"transfer. {lost_note(lost, drawn)}",
        ],
    )
