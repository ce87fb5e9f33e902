"""The training loop: a run that is killed and resumed ends like an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.data import DataError, Images, data_set
from models.data.augmentation import crops_and_flips, unchanged
from models.errors import TrainingError
from models.lenet import MnistLeNet
from models.resnet import CifarResNet, resnet20, resnet110
from models.selection import Selection
from models.training import checkpoint, members
from models.training.augmentation import Augmentation
from models.training.checkpoint import read_safetensors, write_safetensors
from models.training.consistency import Consistency
from models.training.loop import PRESETS, TrainingProgress, accuracy_under_noise
from models.training.members import Task
from models.training.method import Method
from smoothcert.noise import Gaussian, Noise
from tests.service import PATIENCE_S, eventually
from tests.support.blur import Blur
from tests.support.disk import full_disk
from tests.support.training import TWO_EPOCHS, ending, images, network, trained

ROOT = Path(__file__).parents[2]
AUGMENTATION = Augmentation.gaussian(Gaussian(0.25))


def run(net: nn.Module, checkpoint: Path, seen: list[TrainingProgress], stop_after: int | None = None) -> float:
    def report(progress: TrainingProgress) -> None:
        seen.append(progress)
        if progress.holdout_accuracy is not None and progress.epoch == stop_after:
            raise KeyboardInterrupt

    return trained(net, AUGMENTATION, TWO_EPOCHS, seed=1, checkpoint=checkpoint, report=report)


def test_a_resumed_run_gives_the_same_weights(tmp_path: Path) -> None:
    whole, resumed = network(), network()
    seen: list[TrainingProgress] = []
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
        trained(network(), AUGMENTATION, TWO_EPOCHS, seed=2, checkpoint=tmp_path / "x")


def test_a_checkpoint_of_another_architecture_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    run(network(), tmp_path / "x", [])
    smaller = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    with pytest.raises(TrainingError, match="another architecture"):
        run(smaller, tmp_path / "x", [])
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:500])
    with pytest.raises(TrainingError, match="damaged"):
        run(network(), tmp_path / "x", [])


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.safetensors"
    write_safetensors(path, {"w": torch.ones(3)}, {"epoch": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(TrainingError, match="No space left on device"):
        write_safetensors(path, {"w": torch.zeros(3)}, {"epoch": 2})
    record, tensors = read_safetensors(path)
    assert record == {"epoch": 1}
    assert tensors["w"].tolist() == [1, 1, 1]
    assert list(tmp_path.iterdir()) == [path]


class DarkOrBright:
    """Forty small images as a data set."""

    name, files, architecture, holdout = "dark or bright", "", "cifar-resnet20", Selection("1::20")

    def recognises(self, folder: Path) -> bool:
        return True

    def load(self, folder: Path, *, train: bool) -> Images:
        return images()

    def augment(self, pixels: Tensor) -> Tensor:
        return crops_and_flips(pixels)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The training of a ResNet20 on forty small images for one epoch."""
    monkeypatch.setattr(members, "data_set", lambda folder: DarkOrBright())
    monkeypatch.setitem(members.PRESETS, "tiny", replace(TWO_EPOCHS, epochs=1, batch=20))
    return Task(
        tmp_path, tmp_path, "cifar-resnet20", "gaussian", Gaussian(0.25), "tiny", seed=1, threads=1, device="cpu"
    )


def test_a_full_disk_costs_no_epoch_that_was_finished(task: Task) -> None:
    """Weights that could not be written are written by the next call, without any training."""
    assert ending(task) is None
    _, trained = read_safetensors(task.weights)
    task.weights.unlink()
    kept = task.weights.with_suffix(".checkpoint").read_bytes()
    with full_disk():
        error = ending(task)
    assert isinstance(error, TrainingError)
    assert f"cannot write {task.weights}: " in str(error)
    assert "File too large" in str(error)
    assert {path.name: path.read_bytes() for path in task.out.iterdir()} == {"gaussian-1.checkpoint": kept}
    assert ending(task) is None
    assert task.weights.with_suffix(".checkpoint").read_bytes() == kept
    _, written = read_safetensors(task.weights)
    assert all(torch.equal(written[name], tensor) for name, tensor in trained.items())


def test_a_checkpoint_that_cannot_be_written_is_named(task: Task) -> None:
    with full_disk():
        error = ending(task)
    assert f"cannot write {task.weights.with_suffix('.checkpoint')}" in str(error)
    assert list(task.out.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        ({"noise": Gaussian(0.5)}, "another run: {'preset'"),
        ({"noise": None}, "another run: {'preset'"),
        ({"architecture": "cifar-resnet110"}, "another architecture"),
        ({"precision": "bfloat16"}, "another run: {'preset'"),
    ],
)
def test_a_member_does_not_go_on_from_the_checkpoint_of_another(task: Task, other: dict[str, Any], seen: str) -> None:
    assert ending(task) is None
    task.weights.unlink()
    kept = task.weights.with_suffix(".checkpoint").read_bytes()
    error = ending(replace(task, **other))
    assert isinstance(error, TrainingError)
    assert f"{task.weights.with_suffix('.checkpoint')} is the checkpoint of {seen}" in str(error)
    assert task.weights.with_suffix(".checkpoint").read_bytes() == kept


def test_the_weights_of_another_run_are_not_taken_for_finished_ones(task: Task) -> None:
    assert not task.finished
    assert ending(task) is None
    assert task.finished
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"noise": Gaussian(0.5)}, {"sigma": 0.25}),
        ({"noise": Blur(0.5)}, {"sigma": 0.25, "noise": None}),
        ({"noise": None}, {"sigma": 0.25}),
        ({"architecture": "cifar-resnet110"}, {"architecture": "cifar-resnet20"}),
        ({"preset": "paper"}, {"preset": "tiny"}),
        ({"precision": "bfloat16"}, {"precision": "float32"}),
        ({"parameters": {"copies": 4}}, {"parameters": {}}),
    ]
    for change, seen in changes:
        with pytest.raises(TrainingError, match="holds the weights of another run") as error:
            members.train_members([replace(task, **change)], jobs=1)
        assert f"with {seen}" in str(error.value)


def test_bfloat16_is_the_arithmetic_inside_the_layers_alone(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers compute in bfloat16; weights, momentum and the noise of the batch stay float32."""
    seen: list[tuple[torch.dtype, torch.dtype]] = []

    def watched(network: CifarResNet, x: Tensor) -> Tensor:
        logits = resnet_forward(network, x)
        if network.training:
            seen.append((x.dtype, logits.dtype))
        return logits

    resnet_forward = CifarResNet.forward
    monkeypatch.setattr(CifarResNet, "forward", watched)
    task = replace(task, precision="bfloat16")
    assert ending(task) is None
    assert set(seen) == {(torch.float32, torch.bfloat16)}
    record, weights = read_safetensors(task.weights)
    assert record["precision"] == "bfloat16"
    _, state = read_safetensors(task.checkpoint)
    assert {t.dtype for t in [*weights.values(), *state.values()] if t.is_floating_point()} == {torch.float32}


TERMINATED = """
import multiprocessing, signal, sys
from pathlib import Path
from models.training.members import train_members
from smoothcert.noise import Gaussian
from tests.support.training import Endless

out, before = Path(sys.argv[1]), signal.getsignal(signal.SIGTERM)
task = Endless(out, out, "cifar-resnet20", "gaussian", Gaussian(0.25), "paper", seed=1, threads=1, device="cpu")
try:
    train_members([task], jobs=1)
finally:
    children = multiprocessing.active_children()
    for child in children:
        child.join()
    print(signal.getsignal(signal.SIGTERM) is before, {child.exitcode for child in children} <= {-signal.SIGTERM})
"""
"""A script that trains a member that does not end by itself. It is a separate process, because it is sent SIGTERM."""


def test_a_training_that_is_terminated_ends_its_members_too(tmp_path: Path) -> None:
    program = [sys.executable, "-c", TERMINATED, str(tmp_path)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as training:
        started = tmp_path / "pid"
        eventually(lambda: started.exists() and started.read_text(), "the start of the member")
        training.terminate()
        output, _ = training.communicate(timeout=PATIENCE_S)
    assert (training.returncode, output) == (128 + signal.SIGTERM, "True True\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize(
    ("noise", "method", "stated"),
    [
        (Gaussian(0.25), "gaussian", {"sigma": 0.25}),
        (None, "gaussian", {"sigma": 0.0}),
        (Blur(0.5), "augmentation", {"noise": {"name": "test-blur", "reach": 0.5, "norm": "l1"}}),
    ],
)
def test_the_header_of_the_weights_states_the_noise(
    task: Task, noise: Noise | None, method: str, stated: dict[str, Any]
) -> None:
    task = replace(task, noise=noise, method=method)
    assert ending(task) is None
    assert task.finished
    record, _ = read_safetensors(task.weights)
    assert {key: record[key] for key in ("sigma", "noise") if key in record} == stated
    assert list(record)[:4] == ["architecture", "method", *stated, "seed"]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (Augmentation.gaussian(Gaussian(0.25)), {"sigma": 0.25}),
        (Augmentation.gaussian(None), {"sigma": 0.0}),
        (Consistency.at(Gaussian(0.25)), {"sigma": 0.25, "lambda_": 20.0, "eta": 0.5, "copies": 2}),
    ],
)
def test_a_checkpoint_identifies_its_run_in_a_fixed_spelling(
    tmp_path: Path, method: Method, parameters: dict[str, Any]
) -> None:
    """Checkpoints outlive versions of the code, and another spelling would end the runs under way."""
    trained(network(), method, TWO_EPOCHS, checkpoint=tmp_path / "x")
    record, _ = read_safetensors(tmp_path / "x")
    preset = {"epochs": 2, "batch": 8, "rate": 0.1, "schedule": "one-cycle", "weight_decay": 1e-4}
    assert record["run"] == {"preset": preset, "method": parameters, "seed": 1, "data": images().digest}


def test_the_accuracy_under_noise_is_that_of_the_drawn_images() -> None:
    net = network().eval()
    pixels = torch.from_numpy(images().pixels).float() / 255
    drawn = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(7))
    for noise, noisy in ((Gaussian(0.5), pixels + 0.5 * drawn), (None, pixels)):
        right = net(noisy.contiguous(memory_format=torch.channels_last)).argmax(1).numpy() == images().labels
        assert accuracy_under_noise(net, images(), noise, seed=7) == right.mean()


def test_a_parameter_takes_the_place_of_the_published_one_and_is_recorded(task: Task) -> None:
    task = replace(task, method="consistency", parameters={"copies": 3.0, "eta": 0.0})
    assert ending(task) is None
    assert task.finished
    record, _ = read_safetensors(task.weights)
    assert record["parameters"] == {"copies": 3, "eta": 0.0}
    run, _ = read_safetensors(task.checkpoint)
    assert run["run"]["method"] == {"sigma": 0.25, "lambda_": 20.0, "eta": 0.0, "copies": 3}


def test_the_paper_s_schedule_drops_to_a_tenth_every_fifty_epochs() -> None:
    preset = PRESETS["paper"]
    rates = [preset.rate_at(epoch / preset.epochs) for epoch in (0, 49, 50, 99, 100, 149)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_schedule_for_mnist_drops_to_a_tenth_every_ten_epochs() -> None:
    preset = PRESETS["mnist"]
    rates = [preset.rate_at(epoch / preset.epochs) for epoch in (0, 9.99, 10, 19.99, 20, 29.99)]
    assert rates == pytest.approx([0.05, 0.05, 0.005, 0.005, 0.0005, 0.0005])


def test_one_cycle_rises_to_its_peak_and_ends_near_zero() -> None:
    preset = PRESETS["one-cycle"]
    rates = [preset.rate_at(i / 1000) for i in range(1000)]
    assert max(rates) == pytest.approx(preset.rate)
    assert rates[0] == pytest.approx(preset.rate / 20)
    assert rates[-1] < preset.rate / 100


def test_augmented_images_are_shifted_or_mirrored_copies() -> None:
    pixels = torch.arange(3 * 32 * 32).remainder(251).to(torch.uint8).view(1, 3, 32, 32).repeat(64, 1, 1, 1)
    torch.manual_seed(0)
    crops = (crops_and_flips(pixels) * 255).round().to(torch.uint8)
    padded = nn.functional.pad(pixels[0], (4, 4, 4, 4))
    windows = [padded[:, top : top + 32, left : left + 32] for top in range(9) for left in range(9)]
    candidates = {tuple(crop.flatten().tolist()) for window in windows for crop in (window, window.flip(-1))}
    assert all(tuple(crop.flatten().tolist()) in candidates for crop in crops)
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) > 30


def test_unchanged_images_are_the_bytes_over_255() -> None:
    pixels = torch.arange(2 * 1 * 4 * 4).to(torch.uint8).view(2, 1, 4, 4)
    assert torch.equal(unchanged(pixels), pixels.float() / 255)


def test_the_networks_have_the_paper_s_size() -> None:
    assert sum(p.numel() for p in resnet20().parameters()) == 272_474
    assert sum(p.numel() for p in resnet110().parameters()) == 1_730_714
    assert sum(p.numel() for p in MnistLeNet().parameters()) == 431_080


@pytest.mark.parametrize(
    ("labels", "seen"), [([0, 1, 2], r"0\.\.2 outside 0\.\.1"), ([-1, 0, 1], r"-1\.\.1"), ([0, 1], "3 images but 2")]
)
def test_labels_that_do_not_fit_are_named(labels: list[int], seen: str) -> None:
    with pytest.raises(DataError, match=seen):
        Images("x", np.zeros((3, 3, 2, 2), np.uint8), np.array(labels), ("a", "b"))


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        data_set(tmp_path)
