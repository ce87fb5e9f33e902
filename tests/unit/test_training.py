"""The training loop: a run that is killed and resumed ends as one that was left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from models.data import DataError, Images, load_cifar10
from models.resnet import resnet20, resnet110
from models.training.gaussian import Gaussian
from models.training.loop import PRESETS, Preset, Progress, augment, train

TWO_EPOCHS = Preset(epochs=2, batch=8, rate=0.1, schedule="one-cycle")


def images(n: int = 40) -> Images:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = rng.integers(0, 100, (n, 3, 8, 8)) + 150 * labels[:, None, None, None]
    return Images("dark or bright", pixels.astype(np.uint8), labels.astype(np.int64), ("dark", "bright"))


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )


def run(net: nn.Module, checkpoint: Path, seen: list[Progress], stop_after: int | None = None) -> float:
    def report(progress: Progress) -> None:
        seen.append(progress)
        if progress.holdout_accuracy is not None and progress.epoch == stop_after:
            raise KeyboardInterrupt

    return train(net, Gaussian(0.25), TWO_EPOCHS, images(), images(), seed=1, checkpoint=checkpoint, report=report)[1]


def test_a_resumed_run_gives_the_same_weights(tmp_path: Path) -> None:
    whole, resumed = network(), network()
    seen: list[Progress] = []
    accuracy = run(whole, tmp_path / "whole", seen)
    assert accuracy > 0.9
    with pytest.raises(KeyboardInterrupt):
        run(resumed, tmp_path / "resumed", [], stop_after=1)
    restarted = network()
    run(restarted, tmp_path / "resumed", seen := [])
    assert seen[0].epoch == 1
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, restarted.state_dict()[name]), name


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    run(network(), tmp_path / "x", [])
    with pytest.raises(ValueError, match="another run"):
        train(
            network(), Gaussian(0.25), TWO_EPOCHS, images(), images(), seed=2, checkpoint=tmp_path / "x", report=print
        )


def test_the_paper_s_schedule_drops_to_a_tenth_every_fifty_epochs() -> None:
    preset = PRESETS["paper"]
    rates = [preset.rate_at(epoch / preset.epochs) for epoch in (0, 49, 50, 99, 100, 149)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_one_cycle_rises_to_its_peak_and_ends_near_zero() -> None:
    preset = PRESETS["one-cycle"]
    rates = [preset.rate_at(i / 1000) for i in range(1000)]
    assert max(rates) == pytest.approx(preset.rate)
    assert rates[0] == pytest.approx(preset.rate / 20)
    assert rates[-1] < preset.rate / 100


def test_augmented_images_are_shifted_or_mirrored_copies() -> None:
    pixels = torch.arange(3 * 32 * 32).remainder(251).to(torch.uint8).view(1, 3, 32, 32).repeat(64, 1, 1, 1)
    torch.manual_seed(0)
    crops = (augment(pixels) * 255).round().to(torch.uint8)
    padded = nn.functional.pad(pixels[0], (4, 4, 4, 4))
    windows = [padded[:, top : top + 32, left : left + 32] for top in range(9) for left in range(9)]
    candidates = {tuple(crop.flatten().tolist()) for window in windows for crop in (window, window.flip(-1))}
    assert all(tuple(crop.flatten().tolist()) in candidates for crop in crops)
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) > 30


def test_the_networks_have_the_paper_s_size() -> None:
    assert sum(p.numel() for p in resnet20().parameters()) == 272_474
    assert sum(p.numel() for p in resnet110().parameters()) == 1_730_714


@pytest.mark.parametrize(
    ("labels", "seen"), [([0, 1, 2], r"0\.\.2 outside 0\.\.1"), ([-1, 0, 1], r"-1\.\.1"), ([0, 1], "3 images but 2")]
)
def test_labels_that_do_not_fit_are_named(labels: list[int], seen: str) -> None:
    with pytest.raises(DataError, match=seen):
        Images("x", np.zeros((3, 3, 2, 2), np.uint8), np.array(labels), ("a", "b"))


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        load_cifar10(tmp_path, train=True)
