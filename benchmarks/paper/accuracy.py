"""Accuracy under one draw of noise: of each member alone, and of the ensembles of the k best.

The images are the test images without the hold-out that ranked the members, which would flatter them. Every image has
one draw of noise, the same for all members and for every choice of images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.paper.noise import add_noise_options, chosen_noise
from benchmarks.progress import bar
from benchmarks.result import Figure, Result
from models.data import Images, load_images
from models.description import Ranking
from models.errors import DataError
from models.ranking import refuse_holdout
from models.registry import ZOO, describe, load
from models.selection import Selection
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.voting import lowest_argmax
from smoothcert.noise import Noise

GOAL = 0.70
"""The accuracy that all members together are to reach."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--data", type=Path, required=True, help="the folder of a data set, CIFAR-10 or MNIST")
    parser.add_argument("--images", help="test images, like 0::20; by default all but the hold-out")
    add_noise_options(parser)
    parser.add_argument("--voting", default="soft")
    parser.add_argument("--seed", default="accuracy", help="seed of the noise")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=256)


def run(options: argparse.Namespace) -> Result:
    description = describe(options.ensemble, zoo=options.zoo)
    images = chosen_images(load_images(options.data), description.ranking, options.images)
    if images.classes != description.classes:
        raise DataError(f"the images have the classes {images.classes}, the ensemble {description.classes}")
    ensemble = load(options.ensemble, zoo=options.zoo, device=options.device, batch=options.batch)
    ensemble = ensemble.with_(voting=options.voting, consensus=None)
    noise = chosen_noise(options, ensemble)
    right = right_answers(ensemble, images, noise, seed=options.seed, batch=options.batch)
    return report(ensemble, images, right, options, noise)


def chosen_images(test: Images, ranking: Ranking | None, selection: str | None) -> Images:
    """The selected test images, by default all but the hold-out. A selection that contains some of it is refused."""
    if selection is None:
        holdout = Selection(ranking.holdout) if ranking and ranking.data == test.name else ()
        chosen = test.pick([place for place in range(len(test)) if place not in holdout])
    else:
        chosen = test.pick(Selection(selection).places(len(test)))
    if not len(chosen):
        raise DataError(f"selection {selection!r} chooses none of {len(test)} images")
    refuse_holdout(ranking, chosen)
    return chosen


def right_answers(ensemble: Ensemble, images: Images, noise: Noise, *, seed: str, batch: int) -> dict[str, int]:
    """The number of images that each classifier gets right under their one draw of noise, by its name."""
    k = len(ensemble.members)
    names = [*(f"member {i + 1}, {member.name}" for i, member in enumerate(ensemble.members))]
    names += [f"the {size} best" for size in range(2, k + 1)]
    right = torch.zeros(len(names), dtype=torch.int64)
    with bar() as progress:
        task = progress.add_task("under noise", total=len(images))
        for start in range(0, len(images), batch):
            part = images.pick(slice(start, start + batch))
            classes = answers(ensemble, noisy(part, noise, seed=seed, device=ensemble.device))
            right += (classes == torch.from_numpy(part.labels)).sum(1)
            progress.advance(task, len(part))
    return dict(zip(names, right.tolist(), strict=True))


def noisy(images: Images, noise: Noise, *, seed: str, device: torch.device) -> Tensor:
    """The images [N, C, H, W] under noise: test image i gets sample i of stream 0, whatever the others are."""
    pixels = torch.from_numpy(images.pixels).to(device).float() / 255
    out = torch.empty_like(pixels)
    for row, index in enumerate(images.indices.tolist()):
        NoisyImage(noise, pixels[row], seed, 0).sample(out[row : row + 1], index)
    return out


def answers(ensemble: Ensemble, batch: Tensor) -> Tensor:
    """Classes [2k - 1, N]: of each member alone, then of the 2, 3, ..., k best."""
    logits = ensemble.logits(batch)
    votes = [ensemble.first_k(size).vote(logits[:size]) for size in range(2, len(logits) + 1)]
    return torch.cat([lowest_argmax(logits), *(vote.unsqueeze(0) for vote in votes)]).cpu()


def report(
    ensemble: Ensemble, images: Images, right: dict[str, int], options: argparse.Namespace, noise: Noise
) -> Result:
    n, k = len(images), len(ensemble.members)
    rows = [
        (name, round(count / n, 4), round(lower_bound(count, n, 0.025), 4), round(upper_bound(count, n, 0.025), 4))
        for name, count in right.items()
    ]
    counts = list(right.values())
    figures = [
        Figure(f"accuracy of all {k} members together", counts[-1] / n, at_least=GOAL),
        Figure("accuracy of the best member alone", max(counts[:k]) / n),
    ]
    return Result(
        name="accuracy",
        compares=f"{options.ensemble} under one draw of noise ({noise.label}), by members",
        columns=("classifier", "accuracy", "95 % from", "to"),
        rows=rows,
        figures=figures,
        notes=(
            f"{n:,} images of {images.name} ({chosen_words(options)}); intervals by Clopper–Pearson; "
            f"{ensemble.voting} voting; seed of the noise: {options.seed}.",
        ),
    )


def chosen_words(options: argparse.Namespace) -> str:
    return "all but the hold-out" if options.images is None else options.images
