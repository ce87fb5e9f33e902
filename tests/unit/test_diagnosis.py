"""A diagnosis finds what is wrong with a model, and finds nothing if all is well."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.__main__ import run
from models.addition import Addition, add
from models.architectures import build_denoiser
from models.registry import ZOO, load
from smoothcert.diagnosis import Diagnosis, tried_radii
from smoothcert.engine import diagnosis
from smoothcert.engine.diagnosis import diagnose
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.engine.smoothed import Smoothed
from smoothcert.errors import DomainError, OffGridError
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Splitting, Uniform
from tests.support.gratings import gratings, trained
from tests.support.inference import SHAPE as SMALL
from tests.support.inference import ServedModel, logits_of, serving_model
from tests.support.programs import exported, scripted

NOISE = Gaussian(0.5)
IMAGES, LABELS = gratings(60, seed=2)


@pytest.fixture(autouse=True)
def fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw fewer samples: the share that can be certified takes most of the time, and most tests do not look at it."""
    monkeypatch.setattr(diagnosis, "SAMPLES", 20)


def bytes_(images: Tensor) -> Tensor:
    return 255 * images


@cache
def diagnosed(network: nn.Module, **options: object) -> Diagnosis:
    return Smoothed(network, NOISE, **options).diagnose(IMAGES, LABELS)  # type: ignore[arg-type]


def test_a_model_that_was_trained_with_the_noise_is_healthy() -> None:
    found = diagnosed(trained(NOISE))
    assert found.healthy, str(found)
    assert found["clean accuracy"].value > 0.9
    assert [finding.name for finding in found.findings] == [
        "mode", "output", "batch", "clean accuracy", "input", "accuracy under noise", "certifiable",
    ]  # fmt: skip


def test_a_model_that_never_saw_noise_is_told_to_train_with_it() -> None:
    """Mutant killed: accuracy under noise measured on the clean images."""
    found = diagnosed(trained())
    assert found["clean accuracy"].value > 0.9
    noisy = found["accuracy under noise"]
    assert list(noisy.value) == ["gaussian, sigma 0.25", "gaussian, sigma 0.5", "gaussian, sigma 1"]
    assert noisy.value["gaussian, sigma 0.5"] < 0.6
    assert "Train it with gaussian, sigma 0.5 on every image" in (noisy.advice or "")
    assert "or certify with gaussian, sigma 0.25, which it withstands" in (noisy.advice or "")
    assert [finding.name for finding in found.findings if finding.advice] == ["accuracy under noise"]


def test_a_missing_normalisation_is_recognised() -> None:
    network = trained(NOISE, bytes_)
    found = diagnosed(network)
    assert found["input"].value == ["pixels from 0 to 255"]
    assert found["input"].advice == "Normalise with mean=0 and std=1/255."
    assert "no better than guessing" in (found["clean accuracy"].advice or "")
    remedied = diagnosed(network, mean=0, std=1 / 255)
    assert remedied["input"].value == []
    assert remedied["clean accuracy"].value > 0.9


def test_a_normalisation_too_many_is_recognised() -> None:
    """The given mean and std are undone before another way is tried. Mutant killed: leaving them in."""
    network = trained(NOISE, bytes_)
    found = diagnosed(network, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    assert found["input"].value == ["pixels from 0 to 255"]
    assert found["clean accuracy"].value < 0.6


class Brightest(nn.Module):
    """A network whose class is the brightest channel, in the order and layout that it expects."""

    def __init__(self, order: tuple[int, ...] = (0, 1, 2), channels: int = 1) -> None:
        super().__init__()
        self.order, self.channels = order, channels

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[self.channels] != 3:
            raise ValueError(f"expected 3 channels in dimension {self.channels}, got {x.shape[self.channels]}")
        space = tuple({1, 2, 3} - {self.channels})
        return 100 * x.mean(space)[:, list(self.order)]


def coloured(count: int = 60) -> tuple[Tensor, Tensor]:
    labels = torch.arange(count) % 3
    images = torch.full((count, 3, 16, 16), 0.3)
    images[torch.arange(count), labels] = 0.8
    return images, labels


def test_another_order_of_the_channels_is_recognised() -> None:
    found = Smoothed(Brightest((2, 1, 0)).eval(), NOISE).diagnose(*coloured())["input"]
    assert isinstance(found.value, list)
    assert found.value[0] == "pixels in [0, 1] without normalisation, in the order BGR"
    assert "x.flip(1)" in (found.advice or "")
    assert "About as good: " in found.sentence  # a network that only compares channels takes any range


def test_channels_last_are_recognised_where_the_network_takes_nothing_else() -> None:
    found = Smoothed(Brightest(channels=3).eval(), NOISE).diagnose(*coloured())
    assert [finding.name for finding in found.findings] == ["mode", "input"]
    assert "with the channels last" in found["input"].value[0]
    assert "they cannot be taken as they are" in found["input"].sentence
    assert "x.permute(0, 2, 3, 1)" in (found["input"].advice or "")


def test_an_order_that_fits_is_left_alone() -> None:
    assert Smoothed(Brightest().eval(), NOISE).diagnose(*coloured())["input"].value == []


def test_probabilities_are_recognised() -> None:
    found = diagnosed(nn.Sequential(trained(NOISE), nn.Softmax(-1)).eval())["output"]
    assert found.value == "probabilities"
    assert "Return logits" in (found.advice or "")


class Other(nn.Module):
    """A trained network with something done to its logits."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.network, self.kind = trained(NOISE), kind

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        match self.kind:
            case "batch":
                return logits - logits.mean(0)
            case "random":
                return nn.functional.dropout(logits, 0.5, training=True)
        return logits / 0


@pytest.mark.parametrize(
    ("kind", "name", "value", "advice"),
    [
        ("batch", "batch", "dependent", "must not depend on other samples"),
        ("random", "batch", "random", "Remove its randomness"),
        ("infinite", "output", "not finite", "overflow"),
    ],
)
def test_a_model_that_cannot_be_certified_can_be_diagnosed(kind: str, name: str, value: str, advice: str) -> None:
    found = diagnosed(Other(kind).eval())[name]
    assert found.value == value
    assert advice in (found.advice or "")


def test_train_mode_is_mentioned() -> None:
    network = nn.Sequential(trained(NOISE))
    with pytest.warns(UserWarning, match="train mode"):
        found = diagnosed(network.train())
    network.eval()
    assert found["mode"].value == "train"
    assert "model.eval()" in (found["mode"].advice or "")


def test_the_share_that_can_be_certified_is_that_of_the_exact_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier that is always right under any noise certifies all images up to what the samples prove."""
    monkeypatch.setattr(diagnosis, "SAMPLES", 200)
    found = Smoothed(Brightest().eval(), Gaussian(0.25)).diagnose(*coloured())["certifiable"]
    assert found.value == {"0.13": 1.0, "0.25": 1.0, "0.38": 1.0}
    assert "cannot prove more than radius 0.456" in found.sentence  # sigma Phi^-1(0.001^(1/200)) = 0.4560
    monkeypatch.setattr(diagnosis, "SAMPLES", 20)  # 0.001^(1/20) = 0.708 proves radius 0.137
    found = Smoothed(Brightest().eval(), Gaussian(0.25)).diagnose(*coloured())["certifiable"]
    assert found.value == {"0.13": 1.0, "0.25": 0.0, "0.38": 0.0}


@pytest.mark.parametrize(
    "noise",
    [
        Gaussian(0.25),
        RoundedGaussian(0.12),
        GaussianLinf(0.25, 150_528),
        Uniform(1.0),
        Replacement(0.8, 2),
        Replacement(0.2, 256),
        Splitting(0.1),
    ],
    ids=lambda noise: noise.label,
)
def test_every_noise_has_three_radii_to_try(noise: Noise) -> None:
    radii = tried_radii(noise)
    assert radii == sorted(set(radii))
    assert len(radii) == 3
    assert all(radius == int(radius) for radius in radii) or not noise.whole
    assert all(0.5 < noise.probability(radius) <= 1 for radius in radii)


def test_a_noise_of_few_outcomes_is_diagnosed_too() -> None:
    images, labels = coloured()
    pixels = (255 * images).round().to(torch.uint8)
    found = Smoothed(Brightest().eval(), Splitting(0.5)).diagnose(pixels, labels)["certifiable"]
    assert len(found.value) == 3
    assert next(iter(found.value.values())) == 1.0
    assert found.sentence.endswith("; the procedure exact evaluates all 255 outcomes.")
    assert tried_radii(Splitting(1 / 255)) == []
    found = Smoothed(Brightest().eval(), Splitting(1 / 255)).diagnose(pixels, labels)["certifiable"]
    assert found.value == {}
    assert "certify nothing" in found.sentence
    assert found.advice is not None


def test_images_that_the_noise_does_not_take_are_refused_as_by_certify() -> None:
    images, labels = coloured()
    for noise in (RoundedGaussian(0.25), Uniform(0.5), Splitting(0.5)):
        smoothed = Smoothed(Brightest().eval(), noise)
        with pytest.raises(OffGridError, match="the image must have values k/255"):
            smoothed.certify(images)
        with pytest.raises(OffGridError, match="the image must have values k/255"):
            smoothed.diagnose(images, labels)


def test_a_classifier_that_is_always_wrong_certifies_nothing() -> None:
    images, labels = coloured()
    found = Smoothed(Brightest().eval(), Gaussian(0.25)).diagnose(images, (labels + 1) % 3)
    assert set(found["certifiable"].value.values()) == {0.0}
    assert "Nothing can be certified" in (found["certifiable"].advice or "")


def test_a_diagnosis_is_text_and_html_and_json() -> None:
    found = diagnosed(trained())
    text, html = str(found), found._repr_html_()
    for finding in found.findings:
        assert f"{finding.name}: {finding.sentence}" in text
        assert f">{finding.name}</th>" in html
    assert "What to do: The model has probably not been trained with this noise." in text
    assert json.loads(json.dumps(found.as_json()))["healthy"] is False
    with pytest.raises(KeyError, match="'weather' is not one of mode, output"):
        found["weather"]


def test_the_same_seed_gives_the_same_diagnosis() -> None:
    smoothed = Smoothed(trained(), NOISE)
    assert smoothed.diagnose(IMAGES, LABELS) == smoothed.diagnose(IMAGES, LABELS)


def test_an_ensemble_is_diagnosed_by_the_same_code() -> None:
    shape = (3, 16, 16)
    ensemble = assemble([trained(NOISE)], classes=("a", "b", "c", "d"), input_shape=shape, noise=NOISE)
    found = diagnose(ensemble, IMAGES, LABELS.tolist())
    assert found["clean accuracy"] == diagnosed(trained(NOISE))["clean accuracy"]
    unknown = assemble([trained(NOISE)], classes=("a", "b", "c", "d"), input_shape=shape)
    with pytest.raises(DomainError, match="noise must be given"):
        diagnose(unknown, IMAGES, LABELS.tolist())


def test_labels_are_checked() -> None:
    smoothed = Smoothed(trained(NOISE), NOISE)
    with pytest.raises(DomainError, match="there are 59 labels for 60 images"):
        smoothed.diagnose(IMAGES, LABELS[:59])
    with pytest.raises(DomainError, match="from 0 to 3, got 4"):
        smoothed.diagnose(IMAGES, LABELS + 1)


def models(*arguments: object) -> tuple[object, str]:
    """The exit code, or the sentence that ends the command, and what it prints."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as end:
        run([*map(str, arguments)])
    return end.value.code, out.getvalue()


SHEET = ZOO / "cifar10-test-100.json"
SHIPPED = "cifar10-resnet20-gaussian-0.25"


def test_the_best_member_of_the_shipped_ensemble_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.commands.diagnose.load", lambda *names, **options: load(*names, **options).first_k(1))
    code, printed = models("diagnose", SHIPPED, "--data", SHEET, "--select", "::8", "--json")
    assert not code
    found = json.loads(printed)
    by_name = {finding["name"]: finding["value"] for finding in found["findings"]}
    assert found["healthy"], printed
    assert by_name["clean accuracy"] > 0.5
    assert by_name["accuracy under noise"]["gaussian, sigma 0.25"] > 0.5


def brightness() -> nn.Module:
    """A network that tells dark images of the endpoint's shape from light ones, and takes pixels from 0 to 255."""
    network = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(3, 2)).eval()
    with torch.no_grad():
        network[2].weight[:] = torch.tensor([[-3.0], [3.0]]) / 255
        network[2].bias[:] = torch.tensor([4.5, -4.5])
    return network


def add_in_form(form: str, zoo: Path, folder: Path, endpoint: ServedModel) -> None:
    """Add `brightness` to the zoo in this form; the denoiser in front of it is untrained and changes nothing."""
    network, addition, file = brightness(), Addition(("dark", "light"), SMALL, noise=NOISE), folder / "member.pt"
    endpoints: list[str] = []
    match form:
        case "TorchScript":
            file.write_bytes(scripted(network, SMALL))
        case "exported program":
            file.write_bytes(exported(network, SMALL))
        case "denoiser":
            torch.save(build_denoiser("dncnn-half-8x48", channels=3).state_dict(), file)
            (folder / "classifier").write_bytes(scripted(network, SMALL))
            addition = replace(addition, classifier=folder / "classifier", denoiser="dncnn-half-8x48")
        case "endpoint":
            endpoint.answer = lambda batch: logits_of(batch / 255)
            endpoints = [endpoint.url]
    remote = RemotePolicy(frozenset({"127.0.0.1"}))
    add("member", [] if endpoints else [file], addition, zoo=zoo, endpoints=endpoints, remote=remote)


@pytest.mark.parametrize("form", ["TorchScript", "exported program", "denoiser", "endpoint"])
def test_a_member_of_every_form_is_diagnosed_as_the_network_that_it_is(form: str, tmp_path: Path) -> None:
    """The hub and ONNX have their own tests."""
    pixels = torch.arange(40, dtype=torch.uint8).mul(6).view(-1, 1, 1, 1).expand(-1, *SMALL)
    labels = (pixels[:, 0, 0, 0] > 127).long()
    np.savez(tmp_path / "data.npz", images=pixels.permute(0, 2, 3, 1).numpy(), labels=labels.numpy())
    with serving_model() as endpoint:
        add_in_form(form, tmp_path / "zoo", tmp_path, endpoint)
        options = ("--zoo", tmp_path / "zoo", "--allow-host", "127.0.0.1", "--json")
        code, printed = models("diagnose", "member", "--data", tmp_path / "data.npz", *options)
    assert not code
    found = json.loads(printed)
    advice = {each["name"]: each["advice"] for each in found["findings"]}
    assert advice["input"] == "Normalise with mean=0 and std=1/255."
    assert found == Smoothed(brightness(), NOISE).diagnose(pixels, labels).as_json()


def test_the_command_names_what_is_wrong_with_its_input(tmp_path: Path) -> None:
    code, _ = models("diagnose", SHIPPED, "--data", SHEET, "--select", "200:")
    assert "the selection '200:' has no images" in str(code)
    np.savez(tmp_path / "small.npz", images=np.zeros((2, 8, 8, 3), np.uint8), labels=np.array([0, 1]))
    code, _ = models("diagnose", SHIPPED, "--data", tmp_path / "small.npz")
    assert "the images have shape (3, 8, 8), and cifar10-resnet20-gaussian-0.25 takes (3, 32, 32)" in str(code)
