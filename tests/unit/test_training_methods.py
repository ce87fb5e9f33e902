"""The methods of training: what each of them minimises, and its parameters."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import entr, rel_entr, softmax
from scipy.stats import norm
from torch import Tensor, nn

from models.errors import TrainingError
from models.training.augmentation import Augmentation
from models.training.checkpoint import read_safetensors
from models.training.consistency import Consistency
from models.training.macer import Macer
from models.training.members import METHODS
from models.training.method import Method, adjusted
from models.training.smoothadv import SmoothAdv
from smoothcert.noise import Gaussian
from tests.support.blur import Blur
from tests.support.training import TWO_EPOCHS, network, trained


@pytest.mark.parametrize("sigma", [0.25, 0.0])
def test_augmentation_draws_gaussian_noise_as_randn_like_does(batch: tuple[Tensor, Tensor], sigma: float) -> None:
    """A resumed run sees the same noise in the memory layout of the loop, and the same crops after it."""
    x, y = batch[0].contiguous(memory_format=torch.channels_last), batch[1]
    method = Augmentation.gaussian(Gaussian(sigma) if sigma else None)
    net = network().eval()
    torch.manual_seed(1)
    logits = net(x + sigma * torch.randn_like(x))
    after = torch.rand(1)
    torch.manual_seed(1)
    loss, seen = method.loss(net, x, y, epoch=0)
    assert torch.equal(seen, logits)
    assert torch.equal(loss, nn.functional.cross_entropy(logits, y))
    assert torch.equal(torch.rand(1), after)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "augmentation"])
def test_a_method_for_gaussian_noise_refuses_another(name: str) -> None:
    seen = f"the method {name} is defined for Gaussian noise alone, got test-blur, reach 0.5; the method augmentation"
    with pytest.raises(TrainingError, match=seen):
        METHODS[name](Blur(0.5))


@pytest.mark.parametrize(
    ("method", "parameters", "seen"),
    [
        ("macer", {"steps": 2}, "'steps' is not a parameter of the method macer: its parameters are lambda_, copies"),
        ("smoothadv", {"sigma": 1}, "'sigma' is not a parameter of the method smoothadv"),
        ("gaussian", {"copies": 2}, "'copies' is not a parameter of the method gaussian: it has none"),
        (
            "macer",
            {"copies": 2.5},
            "parameter copies of the method macer must be a whole number of at least 1, got 2.5",
        ),
        ("macer", {"copies": 0}, "must be a whole number of at least 1, got 0"),
        ("consistency", {"eta": -1}, "the parameter eta of the method consistency must be zero or more, got -1"),
    ],
)
def test_a_parameter_that_a_method_does_not_have_is_refused(
    method: str, parameters: dict[str, float], seen: str
) -> None:
    with pytest.raises(TrainingError, match=re.escape(seen)):
        adjusted(METHODS[method](Gaussian(0.25)), parameters)


def logits_of(method: Method, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The loss, and every batch of logits that the network computed for it."""
    net, seen = network().eval(), []
    net.register_forward_hook(lambda *args: seen.append(args[2].detach()))
    torch.manual_seed(1)
    return method.loss(net, x, y, epoch=5)[0].detach(), seen


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    return torch.rand(6, 3, 8, 8), torch.tensor([0, 1, 0, 1, 1, 0])


def test_consistency_is_cross_entropy_and_disagreement_and_entropy(batch: tuple[Tensor, Tensor]) -> None:
    """scipy computes it here from the logits of the two copies."""
    x, y = batch
    loss, (logits,) = logits_of(Consistency(0.25, lambda_=20.0), x, y)
    p = softmax(logits.double().numpy().reshape(2, 6, 2), axis=-1)
    mean = p.mean(0)
    fit = -np.log(p[:, np.arange(6), y]).mean()
    disagreement = rel_entr(mean, p).sum(-1).mean()
    assert loss.item() == pytest.approx(fit + 20 * disagreement + 0.5 * entr(mean).sum(-1).mean(), rel=1e-5)


def test_macer_pushes_small_margins_of_right_answers(batch: tuple[Tensor, Tensor]) -> None:
    """scipy computes it here from the logits of the sixteen copies."""
    x, y = batch
    method = Macer(0.25, beta=2.0)
    loss, (logits,) = logits_of(method, x, y)
    each = logits.double().numpy().reshape(16, 6, 2)
    sharp = softmax(2.0 * each, axis=-1).mean(0)
    of_y, other = sharp[np.arange(6), y], sharp[np.arange(6), 1 - y.numpy()]
    margin = norm.ppf(of_y) - norm.ppf(other)
    shortfall = np.where((of_y > other) & (margin < 8), 8 - margin, 0.0)
    fit = -np.log(softmax(each, axis=-1).mean(0)[np.arange(6), y]).mean()
    assert loss.item() == pytest.approx(fit + 12 * 0.25 / 2 * shortfall.sum() / 6, rel=1e-5)
    assert 0 < (shortfall > 0).sum() < 6


def test_smoothadv_fools_within_its_ball(batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    net, method = network(), SmoothAdv(0.25, steps=4, epsilon=0.5, copies=8)
    torch.manual_seed(1)
    noise = 0.25 * torch.randn(48, 3, 8, 8)
    moved = method.attack(net.train(), x, y, noise, 0.5)
    assert net.training
    lengths = (moved - x).flatten(1).norm(dim=1)
    assert (lengths <= 0.5 + 1e-5).all()
    assert (lengths > 0.1).all()
    assert moved.min() >= 0
    assert moved.max() <= 1

    def confidence(images: Tensor) -> Tensor:
        with torch.no_grad():
            p = net.eval()(images.repeat(8, 1, 1, 1) + noise).softmax(-1).view(8, 6, 2).mean(0)
        return p[torch.arange(6), y]

    assert (confidence(moved) < confidence(x)).all()


def test_augmentation_trains_under_any_noise(tmp_path: Path) -> None:
    net, method = network(), METHODS["augmentation"](Blur(0.2))
    assert trained(net, method, TWO_EPOCHS, checkpoint=tmp_path / "x") > 0.9
    assert read_safetensors(tmp_path / "x")[0]["run"]["method"] == {
        "noise": {"name": "test-blur", "reach": 0.2, "norm": "l1"}
    }


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_trains_without_noise(name: str, tmp_path: Path) -> None:
    method, preset = METHODS[name](None), replace(TWO_EPOCHS, epochs=1)
    assert (method.name, method.noise) == (name, None)
    trained(network(), method, preset, n=16, checkpoint=tmp_path / "x")


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_trains(name: str, sigma: float, tmp_path: Path) -> None:
    method = METHODS[name](Gaussian(sigma))
    assert (method.name, method.noise) == (name, Gaussian(sigma))
    if sigma == 0.25:
        preset = replace(TWO_EPOCHS, epochs=1)
        trained(network(), method, preset, n=16, checkpoint=tmp_path / "x")


def test_the_methods_have_the_paper_s_parameters() -> None:
    noises = [Gaussian(sigma) for sigma in (0.25, 0.5, 1.0)]
    assert [Consistency.at(noise).lambda_ for noise in noises] == [20, 10, 10]
    assert [SmoothAdv.at(noise).steps for noise in noises] == [10, 2, 10]
    assert [SmoothAdv.at(noise).copies for noise in noises] == [8, 2, 2]
