"""Accuracy under one draw of noise: of each member alone, and of the ensembles of the k best.

The images are the test images without the hold-out that ranked the members, which would flatter them. Every image has
one draw of noise, the same for all members and whatever other images are chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.progress import bar
from benchmarks.report import Figure, Report
from models.data import Images, load_cifar10
from models.description import Ranking
from models.errors import DataError
from models.ranking import refuse_holdout
from models.registry import ZOO, describe, load
from models.selection import Selection
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.sampling import NoiseStream
from smoothcert.engine.voting import lowest_argmax
from smoothcert.noise import Gaussian

GOAL = 0.70


def configure(parser: argparse.ArgumentParser) -> None:
    """Whose accuracy, and on what."""
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10: torchvision's folder or one of sheets")
    parser.add_argument("--images", help="test images, like 0::20; by default all but the hold-out")
    parser.add_argument("--sigma", type=float, help="by default that of the ensemble's training")
    parser.add_argument("--voting", default="soft")
    parser.add_argument("--seed", default="accuracy", help="of the noise")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=256)


def run(options: argparse.Namespace) -> Report:
    """Every member on every image, once."""
    description = describe(options.ensemble, zoo=options.zoo)
    images = chosen_images(load_cifar10(options.data, train=False), description.ranking, options.images)
    if images.classes != description.classes:
        raise DataError(f"the images have the classes {images.classes}, the ensemble {description.classes}")
    ensemble = load(options.ensemble, zoo=options.zoo, device=options.device, batch=options.batch)
    ensemble = ensemble.with_(voting=options.voting, consensus=None)
    noise = Gaussian(description.sigma if options.sigma is None else options.sigma)
    right = right_answers(ensemble, images, noise.sigma, seed=options.seed, batch=options.batch)
    return report(ensemble, images, right, options, noise)


def chosen_images(test: Images, ranking: Ranking | None, selection: str | None) -> Images:
    """The test images asked for, or all but the hold-out; a hold-out among those asked for is refused."""
    if selection is None:
        holdout = Selection(ranking.holdout) if ranking and ranking.data == test.name else ()
        chosen = test.pick([place for place in range(len(test)) if place not in holdout])
    else:
        chosen = test.pick(Selection(selection).places(len(test)))
    if not len(chosen):
        raise DataError(f"selection {selection!r} chooses none of {len(test)} images")
    refuse_holdout(ranking, chosen)
    return chosen


def right_answers(ensemble: Ensemble, images: Images, sigma: float, *, seed: str, batch: int) -> dict[str, int]:
    """How many images each classifier gets right under their one draw."""
    k = len(ensemble.members)
    names = [*(f"member {i + 1}, {member.name}" for i, member in enumerate(ensemble.members))]
    names += [f"the {size} best" for size in range(2, k + 1)]
    right = torch.zeros(len(names), dtype=torch.int64)
    stream = NoiseStream(seed, 0, ensemble.input_shape, ensemble.device)
    with bar() as progress:
        task = progress.add_task("under noise", total=len(images))
        for start in range(0, len(images), batch):
            part = images.pick(slice(start, start + batch))
            classes = answers(ensemble, noisy(part, sigma, stream))
            right += (classes == torch.from_numpy(part.labels)).sum(1)
            progress.advance(task, len(part))
    return dict(zip(names, right.tolist(), strict=True))


def noisy(images: Images, sigma: float, stream: NoiseStream) -> Tensor:
    """The images [N, C, H, W] with sample i of the stream on test image i."""
    pixels = torch.from_numpy(images.pixels).to(stream.device).float() / 255
    out = torch.empty_like(pixels)
    for row, index in enumerate(images.indices.tolist()):
        stream.perturb(out[row : row + 1], pixels[row], sigma, index)
    return out


def answers(ensemble: Ensemble, batch: Tensor) -> Tensor:
    """Classes [2k - 1, N]: of each member alone, then of the 2, 3, ..., k best."""
    logits = ensemble.logits(batch)
    votes = [ensemble.first_k(size).rest(batch, logits[:size]) for size in range(2, len(logits) + 1)]
    return torch.cat([lowest_argmax(logits), *(vote.unsqueeze(0) for vote in votes)]).cpu()


def report(
    ensemble: Ensemble, images: Images, right: dict[str, int], options: argparse.Namespace, noise: Gaussian
) -> Report:
    """A row for each classifier."""
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
    return Report(
        name="accuracy",
        compares=f"{options.ensemble} under one draw of Gaussian noise, sigma = {noise.sigma:g}, by members",
        columns=("classifier", "accuracy", "95 % from", "to"),
        rows=rows,
        figures=figures,
        notes=(
            f"{n:,} images of {images.name} ({chosen_words(options)}); intervals by Clopper–Pearson; "
            f"{ensemble.voting} voting; seed of the noise: {options.seed}.",
        ),
    )


def chosen_words(options: argparse.Namespace) -> str:
    """Which images they are."""
    return "all but the hold-out" if options.images is None else options.images
