"""The order of the members and their voting weights, from a hold-out under the noise of certification.

The hold-out must not contain an image on which the ensemble is evaluated. Soundness does not depend on the ranking:
order and weights are fixed before anything is certified.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.data import Images
from models.description import Description, Ranking
from models.errors import RankingError
from models.selection import Selection
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.voting import lowest_argmax
from smoothcert.noise import Noise

FIT_STEPS = 100
"""The most iterations of L-BFGS in the fit of the weights: plenty for a convex loss with a number per member."""


@dataclass(frozen=True)
class HoldOut:
    """The images of a data set that rank the members, each under `draws` draws of noise."""

    images: Images
    selection: Selection
    noise: Noise
    draws: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise RankingError(f"draws of noise for each image must be at least 1, got {self.draws}")
        if not len(self.chosen):
            raise RankingError(f"hold-out {self.selection.text!r} chooses none of {len(self.images)} images")

    @property
    def chosen(self) -> Images:
        return self.images.pick(self.selection.places(len(self.images)))

    def refuse_overlap(self, evaluation: Selection) -> None:
        """Raise if the hold-out contains an evaluation image."""
        size = len(self.images)
        both = sorted(set(self.selection.places(size).tolist()) & set(evaluation.places(size).tolist()))
        if both:
            raise RankingError(
                f"hold-out {self.selection.text!r} overlaps the evaluation images {evaluation.text!r} "
                f"in {len(both)} places: {_some(both)}"
            )


def rank(ensemble: Ensemble, description: Description, holdout: HoldOut) -> Description:
    """The description with its members in order of accuracy under noise, and with fitted voting weights."""
    holdout.refuse_overlap(Selection(description.evaluation))
    if holdout.images.classes != ensemble.classes:
        raise RankingError(
            f"the classes of the data, {holdout.images.classes}, are not the ensemble's, {ensemble.classes}"
        )
    chosen = holdout.chosen
    logits, labels = logits_under_noise(ensemble, holdout)
    digests = [member.digest for member in ensemble.members]
    accuracies = (lowest_argmax(logits) == labels).double().mean(1).tolist()
    weights = fit_weights(logits, labels)
    ranking = Ranking(
        data=chosen.name,
        data_digest=chosen.digest,
        holdout=holdout.selection.text,
        images=len(chosen),
        draws=holdout.draws,
        noise=holdout.noise,
        seed=holdout.seed,
        accuracies=dict(zip(digests, (round(accuracy, 6) for accuracy in accuracies), strict=True)),
    )
    return description.ranked(ranking, dict(zip(digests, weights, strict=True)))


def refuse_holdout(ranking: Ranking | None, images: Images) -> None:
    """Raise if the ranking used one of these images, on which the members are to be evaluated."""
    if ranking is None or ranking.data != images.name:
        return
    holdout = Selection(ranking.holdout)
    both = [index for index in images.indices.tolist() if index in holdout]
    if both:
        raise RankingError(
            f"{len(both)} of these {len(images)} images of {images.name} are in the hold-out {ranking.holdout!r} that "
            f"ranked the members: {_some(both)}"
        )


def logits_under_noise(ensemble: Ensemble, holdout: HoldOut) -> tuple[Tensor, Tensor]:
    """Logits [k, M, C] and labels [M] of M = draws * images noisy images, on the CPU."""
    chosen = holdout.chosen
    pixels = torch.from_numpy(chosen.pixels).float() / 255
    parts = []
    for draw in range(holdout.draws):
        generator = torch.Generator().manual_seed(_draw_seed(holdout.seed, draw))
        parts.append(ensemble.logits(holdout.noise.perturb(pixels, generator)).cpu())
    return torch.cat(parts, dim=1), torch.from_numpy(chosen.labels).repeat(holdout.draws)


def fit_weights(logits: Tensor, labels: Tensor) -> list[float]:
    """The weights >= 0 with sum 1 whose weighted sum of logits has the least cross-entropy.

    Cross-entropy is convex in the weights. Their scale is fitted too and then divided out, since it changes no class.
    The fit is deterministic: it begins with equal weights and uses the rows in which all logits are finite.
    """
    sound = logits.isfinite().all(-1).all(0)
    if not sound.any():
        raise RankingError("no image of the hold-out has finite logits from every member")
    outputs, targets = logits[:, sound].double(), labels[sound]
    # The weights are exp(powers), which keeps them positive without constraints.
    powers = torch.full((len(outputs),), 1 / len(outputs), dtype=torch.float64).log().requires_grad_()
    optimiser = torch.optim.LBFGS([powers], max_iter=FIT_STEPS, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimiser.zero_grad()
        value = cross_entropy(torch.einsum("k,knc->nc", powers.exp(), outputs), targets)
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    weights = powers.detach().softmax(0)
    return [round(weight, 6) for weight in weights.tolist()]


def _some(places: list[int]) -> str:
    return ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")


def _draw_seed(seed: int, draw: int) -> int:
    # Hashed, since torch's CPU generator keeps only 32 bits of a seed.
    return int.from_bytes(hashlib.sha256(f"rank/{seed}/{draw}".encode()).digest()[:4], "big")
