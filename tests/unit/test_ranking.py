from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.data import Images
from models.description import Description, MemberFile
from models.errors import RankingError
from models.ranking import HoldOut, fit_weights, logits_under_noise, rank
from models.registry import rewrite
from models.selection import Selection
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.noise import Gaussian
from tests.support.blur import Blur

CLASSES = ("dark", "bright")
NOISE = Gaussian(0.25)


class Brightness(nn.Module):
    """A network that tells dark from bright by the mean pixel, disturbed by a pseudo-random function of one pixel."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.register_buffer("noise", torch.tensor(noise))

    def forward(self, x: Tensor) -> Tensor:
        signal = x.mean((1, 2, 3)) - 0.5
        junk = self.noise * torch.sin(1000 * x[:, 0, 0, 0])  # a function of the image without information
        return torch.stack([-(signal + junk), signal + junk], dim=1)


def images(rows: int = 60) -> Images:
    labels = np.arange(rows) % 2
    pixels = np.where(labels, 160, 96).astype(np.uint8).reshape(-1, 1, 1, 1) * np.ones((1, 1, 4, 4), np.uint8)
    return Images("squares", pixels, labels.astype(np.int64), CLASSES)


def worst_first() -> tuple[Ensemble, Description]:
    ensemble = assemble([Brightness(n) for n in (2.0, 0.3, 0.0)], classes=CLASSES, input_shape=(1, 4, 4), noise=NOISE)
    files = tuple(MemberFile(f"m{i}.safetensors", m.digest, 1) for i, m in enumerate(ensemble.members))
    return ensemble, Description("brightness", CLASSES, (1, 4, 4), NOISE, files)


def holdout(text: str = "1::2", draws: int = 8) -> HoldOut:
    return HoldOut(images(), Selection(text), NOISE, draws=draws)


def test_members_are_put_in_order_of_their_accuracy_under_noise() -> None:
    ensemble, description = worst_first()
    ranked = rank(ensemble, replace(description, evaluation="0:1"), holdout("1:"))
    assert [member.file for member in ranked.members] == ["m2.safetensors", "m1.safetensors", "m0.safetensors"]
    assert ranked.ranking is not None
    assert ranked.weights is not None
    accuracies = [ranked.ranking.accuracies[member.sha256] for member in ranked.members]
    weights = [ranked.weights[member.sha256] for member in ranked.members]
    assert accuracies == sorted(accuracies, reverse=True)
    assert weights[0] > weights[2]
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    ranking = ranked.ranking
    assert (ranking.data, ranking.holdout, ranking.images, ranking.draws) == ("squares", "1:", 59, 8)
    assert ranking.noise == NOISE
    assert ranked.digest != description.digest


def test_ranking_twice_gives_the_same() -> None:
    ensemble, description = worst_first()
    first = rank(ensemble, replace(description, evaluation="0:1"), holdout("1:"))
    assert rank(ensemble, replace(description, evaluation="0:1"), holdout("1:")) == first


def test_the_noise_of_a_ranking_follows_from_its_seed_and_draw() -> None:
    """A ranking can be repeated: torch.randn, seeded by the first 32 bits of the sha256 of rank/<seed>/<draw>."""
    ensemble, _ = worst_first()
    chosen = HoldOut(images(), Selection("1::2"), NOISE, draws=2, seed=3)
    pixels = torch.from_numpy(images().pixels[1::2]).float() / 255
    expected = []
    for draw in range(2):
        seed = int.from_bytes(hashlib.sha256(f"rank/3/{draw}".encode()).digest()[:4], "big")
        drawn = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed))
        expected.append(ensemble.logits(pixels + 0.25 * drawn))
    logits, labels = logits_under_noise(ensemble, chosen)
    assert torch.equal(logits, torch.cat(expected, dim=1))
    assert labels.tolist() == [1] * 60


def test_members_are_ranked_under_any_noise() -> None:
    ensemble, description = worst_first()
    chosen = HoldOut(images(), Selection("1:"), Blur(0.5), draws=2)
    ranked = rank(ensemble, replace(description, evaluation="0:1"), chosen)
    assert ranked.members[0].file == "m2.safetensors"
    assert ranked.ranking is not None
    assert ranked.ranking.noise == Blur(0.5)


def test_a_hold_out_that_overlaps_the_evaluation_images_is_refused() -> None:
    ensemble, description = worst_first()
    with pytest.raises(RankingError, match=r"hold-out '0::10' overlaps .* '0::20' in 3 places: 0, 20, 40"):
        rank(ensemble, description, holdout("0::10"))
    with pytest.raises(RankingError, match=r"in 1 places: 40$"):
        rank(ensemble, description, holdout("1,40"))


def test_a_hold_out_must_have_images_draws_and_the_same_classes() -> None:
    ensemble, description = worst_first()
    with pytest.raises(RankingError, match="'70:' chooses none of 60 images"):
        holdout("70:")
    with pytest.raises(RankingError, match="must be at least 1, got 0"):
        holdout(draws=0)
    with pytest.raises(RankingError, match="classes of the data"):
        rank(replace(ensemble, classes=("dark", "light")), description, holdout())


def test_fitted_weights_do_as_well_as_the_best_on_a_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (400,), generator=generator)
    truth = nn.functional.one_hot(labels, 3).float()
    logits = torch.stack([truth * s + torch.randn(400, 3, generator=generator) for s in (2.0, 1.0, 0.1)])

    def loss(weights: Tensor) -> float:
        scales = torch.linspace(0.2, 8, 24).view(-1, 1, 1)
        mixed = scales * torch.einsum("k,knc->nc", weights, logits)
        return min(float(nn.functional.cross_entropy(each, labels)) for each in mixed)

    fitted = torch.tensor(fit_weights(logits, labels))
    steps = range(0, 21, 4)
    grid = [torch.tensor([a, b, 20 - a - b]) / 20 for a in steps for b in steps if a + b <= 20]
    assert loss(fitted) <= min(map(loss, grid)) + 1e-3
    assert fitted.min() >= 0


def test_rows_without_finite_logits_do_not_spoil_the_fit() -> None:
    logits = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(50, dtype=torch.int64)
    spoiled = torch.cat([logits, torch.full((2, 1, 3), float("nan"))], dim=1)
    assert fit_weights(spoiled, torch.cat([labels, labels[:1]])) == fit_weights(logits, labels)
    with pytest.raises(RankingError, match="no image of the hold-out has finite logits"):
        fit_weights(logits * float("nan"), labels)


def test_a_ranking_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    _, description = worst_first()
    (tmp_path / "trio").mkdir()
    (tmp_path / "trio" / "ensemble.toml").write_text("old")
    rewrite("trio", description, zoo=tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["trio", "ensemble.toml"]
    assert "brightness" in (tmp_path / "trio" / "ensemble.toml").read_text()
