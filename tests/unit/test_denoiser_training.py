"""Denoisers are trained in front of a frozen classifier; bad combinations are refused in a sentence."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.__main__ import run
from models.architectures import DENOISERS, build, build_denoiser
from models.data import Images
from models.data.augmentation import unchanged
from models.dncnn import DnCNN
from models.errors import ArchitectureError, TrainingError
from models.registry import describe
from models.selection import Selection
from models.training import members
from models.training.checkpoint import read_safetensors, write_safetensors
from models.training.denoiser_classification import DenoiserClassification
from models.training.denoiser_mse import JUDGED, DenoiserMse
from models.training.denoiser_stability import DenoiserStability
from models.training.frozen import FrozenClassifier
from models.training.loop import PRESETS, Preset, TrainingProgress, accuracy_under_noise, train
from models.training.members import DENOISING, METHODS, Task
from smoothcert.noise import Gaussian, Noise
from tests.support.blur import Blur
from tests.support.training import ending

NOISE = Gaussian(0.5)
ADAM = Preset(epochs=4, batch=8, rate=0.01, schedule="cosine", optimiser="adam")
SHAPE = (3, 8, 8)


def images(n: int = 48) -> Images:
    """Images whose upper or lower half is bright."""
    labels = np.arange(n) % 2
    pixels = np.full((n, *SHAPE), 60, np.uint8)
    pixels[labels == 0, :, :4] = 200
    pixels[labels == 1, :, 4:] = 200
    return Images("halves", pixels, labels.astype(np.int64), ("upper", "lower"))


def classifier() -> nn.Module:
    """A classifier that looks at one pixel of each half, so noise fools it and a denoiser that looks around helps."""
    linear = nn.Linear(192, 2)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
        linear.weight[:, 2 * 8 + 3] = torch.tensor([5.0, -5.0])
        linear.weight[:, 5 * 8 + 3] = torch.tensor([-5.0, 5.0])
    return nn.Sequential(nn.Flatten(), linear).eval().requires_grad_(False)


@pytest.fixture
def frozen() -> FrozenClassifier:
    return FrozenClassifier(classifier(), "one pixel of each half", "0" * 64)


def denoiser() -> nn.Module:
    torch.manual_seed(3)
    return DnCNN(3, 24)


def test_the_denoisers_have_the_sizes_of_their_specification() -> None:
    sizes = {name: sum(p.numel() for p in build_denoiser(name, channels=3).parameters()) for name in DENOISERS}
    assert sizes["dncnn-half-8x48"] == 135_408
    assert sizes["dncnn-half-8x64"] == 235_840
    for name, (depth, width) in {"dncnn-17x64": (17, 64), "dncnn-17x128": (17, 128)}.items():
        outer, inner = 9 * 3 * width, 9 * width * width + 2 * width  # a batch norm has two numbers per channel
        assert sizes[name] == outer + width + (depth - 2) * inner + outer


@pytest.mark.parametrize("name", ["dncnn-17x64", "dncnn-half-8x48"])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_untrained_denoiser_returns_its_input(name: str, channels: int) -> None:
    x = torch.rand(2, channels, 8, 6)
    assert torch.equal(build_denoiser(name, channels=channels).eval()(x), x)


def test_a_denoiser_subtracts_what_its_layers_find() -> None:
    net = DnCNN(3, 4, channels=1, shrink=2).eval()
    nn.init.normal_(net.layers[-1].weight)
    x = torch.rand(1, 1, 4, 6)
    found = (x - net(x)).detach()
    blocks = x.view(1, 2, 2, 3, 2).permute(0, 2, 4, 1, 3).reshape(1, 4, 2, 3)  # each 2 x 2 block becomes four channels
    expected = net.layers(blocks).view(1, 2, 2, 2, 3).permute(0, 3, 1, 4, 2).reshape(1, 1, 4, 6)
    assert torch.allclose(found, expected, atol=1e-6)


def test_a_name_that_is_not_a_denoiser_is_refused() -> None:
    with pytest.raises(ArchitectureError, match=r"must be one of dncnn-17x128, .*; got 'cifar-resnet20'"):
        build_denoiser("cifar-resnet20", channels=3)
    with pytest.raises(ArchitectureError, match="got 'dncnn-17x64', which is a denoiser"):
        build("dncnn-17x64", classes=10)


def trained(net: nn.Module, method: Any, preset: Preset, path: Path, stop_after: int | None = None) -> float:
    def report(progress: TrainingProgress) -> None:
        if progress.holdout_accuracy is not None and progress.epoch == stop_after:
            raise KeyboardInterrupt

    data = images()
    return train(net, method, preset, data, data, augment=unchanged, seed=1, checkpoint=path, report=report)[1]


@pytest.mark.parametrize("name", list(DENOISING))
def test_a_denoiser_makes_its_classifier_withstand_noise(name: str, frozen: FrozenClassifier, tmp_path: Path) -> None:
    """The accuracy is that of the classifier behind the denoiser; the classifier stays as it is."""
    before = {key: tensor.clone() for key, tensor in frozen.network.state_dict().items()}
    net, method = denoiser(), DENOISING[name](NOISE, frozen)
    noisy = accuracy_under_noise(frozen.network, images(), NOISE, seed=0)
    accuracy = trained(net, method, replace(ADAM, epochs=8), tmp_path / "x")
    assert noisy < 0.8
    assert accuracy > noisy + 0.1
    with torch.no_grad():
        assert accuracy == accuracy_under_noise(nn.Sequential(net, frozen.network), images(), NOISE, seed=0)
    assert all(torch.equal(tensor, before[key]) for key, tensor in frozen.network.state_dict().items())
    assert method.parameters() == {"sigma": 0.5, "classifier": "0" * 64}


def test_the_losses_are_those_of_their_papers(frozen: FrozenClassifier) -> None:
    net = denoiser().eval()
    nn.init.normal_(net.layers[-1].weight, std=0.1)
    x, y = torch.rand(20, *SHAPE), torch.arange(20) % 2
    torch.manual_seed(5)
    denoised = net(NOISE.perturb(x))
    logits = frozen.network(denoised)

    def loss(method: Any) -> tuple[float, Tensor]:
        torch.manual_seed(5)
        value, seen = method(NOISE, frozen).loss(net, x, y, epoch=0)
        return value.item(), seen

    per_image = (denoised - x).flatten(1).norm(dim=1) ** 2
    value, seen = loss(DenoiserMse)
    assert value == pytest.approx(per_image.mean().item(), rel=1e-5)
    assert torch.allclose(seen, logits[:JUDGED])
    rows, surprise = torch.arange(20), -logits.log_softmax(1)
    value, seen = loss(DenoiserClassification)
    assert value == pytest.approx(surprise[rows, y].mean().item(), rel=1e-5)
    assert torch.allclose(seen, logits)
    answers = frozen.network(x).argmax(1)
    assert not torch.equal(answers, y)
    value, _ = loss(DenoiserStability)
    assert value == pytest.approx(surprise[rows, answers].mean().item(), rel=1e-5)


def test_a_resumed_run_with_adam_gives_the_same_weights(frozen: FrozenClassifier, tmp_path: Path) -> None:
    whole, cut, resumed = denoiser(), denoiser(), denoiser()
    method = DenoiserStability(NOISE, frozen)
    trained(whole, method, ADAM, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(cut, method, ADAM, tmp_path / "cut", stop_after=2)
    trained(resumed, method, ADAM, tmp_path / "cut")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    other = DenoiserStability(NOISE, replace(frozen, digest="1" * 64))
    with pytest.raises(TrainingError, match="another run"):
        trained(denoiser(), other, ADAM, tmp_path / "cut")
    with pytest.raises(TrainingError, match="another run"):
        trained(denoiser(), method, replace(ADAM, optimiser="sgd"), tmp_path / "cut")


def test_the_cosine_falls_from_the_rate_to_zero() -> None:
    preset = PRESETS["denoiser"]
    rates = [preset.rate_at(progress) for progress in (0, 1 / 3, 0.5, 1)]
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0], abs=1e-12)


class Halves:
    """The images of this file as a data set."""

    name, files, architecture, holdout = "halves", "", "cifar-resnet20", Selection("1::4")

    def load(self, folder: Path, *, train: bool) -> Images:
        return images()

    def augment(self, pixels: Tensor) -> Tensor:
        return unchanged(pixels)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "data_set", lambda folder: Halves())
    monkeypatch.setattr("models.commands.train.data_set", lambda folder: Halves())
    monkeypatch.setitem(members.PRESETS, "tiny", replace(ADAM, epochs=1, batch=16))
    monkeypatch.setitem(members.PRESETS, "tiny-sgd", Preset(epochs=1, batch=16, rate=0.1, schedule="one-cycle"))


@pytest.fixture
def clean(data: None, tmp_path: Path) -> Task:
    """A ResNet20 that was trained without noise."""
    task = Task(tmp_path, tmp_path, "cifar-resnet20", "gaussian", None, "tiny-sgd", seed=0, threads=1, device="cpu")
    assert ending(task) is None
    return task


def denoising(clean: Task, **changes: Any) -> Task:
    own = {"architecture": "dncnn-half-8x48", "method": "denoiser-mse", "noise": NOISE, "preset": "tiny"}
    return replace(clean, **{**own, "classifier": clean.weights, **changes})


def test_a_denoiser_is_trained_and_then_tuned(clean: Task) -> None:
    """The records name the files of the classifier and of the weights with which the tuning began."""
    assert read_safetensors(clean.weights)[0]["sigma"] == 0
    first = denoising(clean)
    assert ending(first) is None
    assert first.finished
    tuned = denoising(clean, method="denoiser-stability", start=first.weights)
    assert ending(tuned) is None
    assert tuned.finished
    records = [read_safetensors(task.weights)[0] for task in (clean, first, tuned)]
    digests = [members._file_digest(task.weights) for task in (clean, first)]
    assert [record.get("classifier") for record in records] == [None, digests[0], digests[0]]
    assert [record.get("start") for record in records] == [None, None, digests[1]]
    assert records[1]["architecture"] == "dncnn-half-8x48"
    with pytest.raises(TrainingError, match=r"holds the weights of another run, with \{'start': '"):
        members.train_members([replace(tuned, start=None)], jobs=1)
    tuned.weights.unlink()
    assert "is the checkpoint of another run" in str(ending(replace(tuned, start=None)))


def test_the_weights_to_begin_with_are_those_that_are_trained(clean: Task) -> None:
    begun = denoising(clean, start=denoising(clean).weights)
    assert ending(denoising(clean)) is None
    network = begun._network(images())
    _, weights = read_safetensors(begun.start or Path())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in network.state_dict().items())


def test_what_cannot_stand_behind_a_denoiser_is_named(clean: Task, tmp_path: Path) -> None:
    _, tensors = read_safetensors(clean.weights)
    unnamed, lenet, three = (tmp_path / f"{name}.safetensors" for name in ("unnamed", "lenet", "three"))
    write_safetensors(unnamed, tensors, {})
    write_safetensors(lenet, build("mnist-lenet", classes=2).state_dict(), {"architecture": "mnist-lenet"})
    write_safetensors(three, build("cifar-resnet20", classes=3).state_dict(), {"architecture": "cifar-resnet20"})
    text = tmp_path / "notes.txt"
    text.write_text("no weights")
    for file, seen in (
        (unnamed, "it has no training record that names its architecture"),
        (lenet, "normalises 1 channels, and the images have 3"),
        (three, "the network has 3 outputs, and there are 2 class names"),
        (text, "neither .safetensors, a state dict"),
    ):
        error = ending(denoising(clean, classifier=file))
        assert str(error).startswith(f"{file}: "), error
        assert seen in str(error)
    error = ending(denoising(clean, start=three))
    assert f"{three}: the weights do not fit the network" in str(error)
    error = ending(denoising(clean, architecture="cifar-resnet20"))
    assert "the architecture of a denoiser must be one of dncnn-17x128" in str(error)
    error = ending(denoising(clean, start=tmp_path / "missing"))
    assert str(error) == f"--start {tmp_path / 'missing'} is missing, or not a file"


def test_the_command_makes_an_ensemble_of_denoisers_that_begin_with_those_of_their_seeds(
    clean: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Task] = []

    def train_here(tasks: list[Task], *, jobs: int) -> None:
        seen.extend(tasks)
        assert [ending(task) for task in tasks] == [None, None]

    monkeypatch.setattr("models.commands.train.train_members", train_here)
    common = [
        "train",
        "--data",
        str(clean.data),
        "--out",
        str(clean.out),
        "--preset",
        "tiny",
        "--seeds",
        "4,5",
        "--jobs",
        "2",
    ]
    common += ["--sigma", "0.5", "--classifier", str(clean.weights)]
    start, zoo = str(clean.out / "denoiser-mse-{seed}.safetensors"), clean.out / "zoo"
    for options in (
        ["--method", "denoiser-mse"],
        ["--method", "denoiser-stability", "--start", start, "--ensemble", "denoised", "--zoo", str(zoo)],
    ):
        with suppress(SystemExit):
            run([*common, *options])
    assert [task.architecture for task in seen] == ["dncnn-half-8x48"] * 4
    assert [task.start for task in seen[2:]] == [task.weights for task in seen[:2]]
    assert "denoised: 2 members, digest " in capsys.readouterr().out
    described = describe("denoised", zoo=zoo)
    assert described.architectures == "dncnn-half-8x48 > cifar-resnet20"
    assert described.noise == NOISE


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        (["--method", "denoiser-mse"], "name the file of the classifier by --classifier"),
        (["--method", "denoiser-mse", "--classifier", "missing.pt"], "--classifier missing.pt is missing, or not a"),
        (["--method", "denoiser-mse", "--classifier", "{clean}", "--sigma", "0"], "needs noise to remove"),
        (["--method", "gaussian", "--classifier", "{clean}"], "--classifier belongs to the methods denoiser-mse, "),
        (["--method", "denoise"], "denoiser-mse, denoiser-stability, denoiser-classification; got 'denoise'"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(clean: Task, options: list[str], seen: str) -> None:
    given = [option.replace("{clean}", str(clean.weights)) for option in options]
    with pytest.raises(SystemExit) as ended:
        run(["train", "--data", str(clean.data), "--out", str(clean.out), *given])
    assert seen in str(ended.value)


def test_a_denoiser_may_learn_any_noise(frozen: FrozenClassifier, tmp_path: Path) -> None:
    noise: Noise = Blur(0.2)
    trained(denoiser(), DenoiserMse(noise, frozen), replace(ADAM, epochs=1), tmp_path / "x")
    assert set(METHODS) & set(DENOISING) == set()
