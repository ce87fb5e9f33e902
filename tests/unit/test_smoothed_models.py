"""The models that `Smoothed` takes: their outputs, their mode, their device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import networks
from smoothcert.engine.errors import (
    DeviceError,
    MemberError,
)
from smoothcert.engine.outputs import logits_of
from smoothcert.engine.placement import same_device
from smoothcert.engine.smoothed import Smoothed, SmoothedWarning
from smoothcert.verification import verify
from tests.support.engines import Patches
from tests.support.smoothed import NOISE, QUICK, counts, images, noisy_classes, patches


@dataclass
class Output:
    logits: Tensor
    hidden_states: object = None


class Wrapped(nn.Module):
    """Patches whose logits are inside something else."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.network, self.kind = patches(), kind

    def forward(self, x: Tensor) -> Any:
        logits: Tensor = self.network(x)
        return {
            "object": Output(logits),
            "mapping": {"logits": logits, "loss": None},
            "tuple": (logits, logits + 1),
            "text": "cat",
            "flat": logits.flatten(),
            "one": logits[:, :1],
        }[self.kind]


@pytest.mark.parametrize("kind", ["object", "mapping", "tuple"])
def test_logits_are_unwrapped(kind: str) -> None:
    batch = torch.stack(images(4))
    plain = noisy_classes(Smoothed(patches(), NOISE, mean=0.1, std=2), batch)
    with Smoothed(Wrapped(kind).eval(), NOISE, mean=0.1, std=2) as smoothed:
        assert torch.equal(noisy_classes(smoothed, batch), plain)
        assert verify(smoothed.certify(batch[0], 0.1, procedure=QUICK)[0])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "the model returns str; it must return a tensor [N, classes] of logits"),
        ("flat", "Wrapped returns shape (4,) for 1 images; it must be (1, classes)"),
        ("one", "Wrapped returns one number for each image; a classifier returns a logit for each class"),
    ],
)
def test_an_output_without_logits_is_refused(kind: str, message: str) -> None:
    with pytest.raises(MemberError, match=re.escape(message)):
        Smoothed(Wrapped(kind).eval(), NOISE).certify(images(1)[0], 0.1)


def test_a_tensor_of_logits_is_itself() -> None:
    logits = torch.zeros(2, 3)
    assert logits_of(logits) is logits


@pytest.mark.parametrize(
    ("networks", "effect"),
    [(1, "does not change the classes of a single model"), (2, "soft voting then combines probabilities")],
)
def test_probabilities_are_warned_of_once(networks: int, effect: str) -> None:
    members = [nn.Sequential(patches(seed), nn.Softmax(-1)).eval() for seed in range(networks)]
    with Smoothed(members, NOISE) as smoothed:
        with pytest.warns(SmoothedWarning, match=f"returns probabilities.*{effect}") as seen:
            smoothed.predict(images(1)[0], n=10)
        assert [warning.filename for warning in seen] == [__file__]
        smoothed.predict(images(1)[0], n=10)  # a second warning would be an error here


def test_hard_votes_may_be_of_probabilities() -> None:
    members = [nn.Sequential(patches(seed), nn.Softmax(-1)).eval() for seed in range(2)]
    with Smoothed(members, NOISE, voting="hard") as smoothed:
        smoothed.predict(images(1)[0], n=10)


# --- mode and device


def test_a_model_in_train_mode_is_copied_into_eval_mode() -> None:
    network = patches().train()
    with pytest.warns(SmoothedWarning, match="train mode; Smoothed runs a copy of it in eval mode") as seen:
        smoothed = Smoothed(network, NOISE)
    assert [warning.filename for warning in seen] == [__file__]
    with smoothed, Smoothed(patches(), NOISE) as other:
        found, expected = (each.certify(images(1)[0], 0.1, procedure=QUICK, seed=0) for each in (smoothed, other))
    assert network.training
    assert [counts(each) for each in found] == [counts(each) for each in expected]


def test_a_model_elsewhere_is_moved_and_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second device here, so the model only says that it is on one."""
    network = patches()
    monkeypatch.setattr(networks, "place_of", lambda _: torch.device("cuda:0"))
    with pytest.warns(SmoothedWarning, match="a model is on cuda:0; Smoothed runs a copy of it on cpu"):
        Smoothed(network, NOISE, device="cpu")
    assert same_device(torch.device("cuda:0"), torch.device("cuda"))
    assert not same_device(torch.device("cuda:0"), torch.device("cuda:1"))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:7", "the device 'cuda:7' cannot be used here"),
        ("gpu", "device must be a name such as cpu or cuda:0, got 'gpu'"),
        ("meta", "on the device meta, where tensors have no values"),
    ],
)
def test_a_device_that_cannot_be_used_is_named(device: str, message: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(message)):
        Smoothed(patches(), NOISE, device=device)


def test_a_model_without_values_is_refused() -> None:
    with torch.device("meta"):
        network = nn.Linear(3, 2).eval()
    with pytest.raises(DeviceError, match="load its weights first"):
        Smoothed(network, NOISE)
    with pytest.raises(MemberError, match="Linear cannot be copied to cpu"):
        Smoothed(network, NOISE, device="cpu")


def test_a_network_that_mixes_images_is_refused() -> None:
    class Mixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values = x.flatten(1)[:, :3]
            return values - values.mean(0)

    with pytest.raises(MemberError, match="Mixing gives an image different logits when other images are beside it"):
        Smoothed(Mixing().eval(), NOISE).predict(images(1)[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_model_of_another_precision_is_to_be_converted(dtype: torch.dtype) -> None:
    message = f"Patches cannot take images .* It has weights of {dtype}, and .* torch.float32: pass model.float()"
    with pytest.raises(MemberError, match=message.replace("()", r"\(\)")):
        Smoothed(patches().to(dtype), NOISE).predict(images(1)[0])
    Smoothed(patches().to(dtype).float(), NOISE).diagnose(images(2), [0, 1])


class Twin(Patches):
    """Patches with other code and the same weights, under another name."""


def test_models_that_are_one_member_are_named_by_their_places() -> None:
    with pytest.raises(MemberError, match="models 1 and 3 are the same member: they have equal weights"):
        Smoothed([patches(), patches(1), patches()], NOISE).predict(images(1)[0])
    with Smoothed([patches(), Twin(0).eval()], NOISE) as smoothed:
        smoothed.predict(images(1)[0], n=10)


@pytest.mark.filterwarnings("ignore")  # torch warns about its own TorchScript
def test_a_scripted_model_that_cannot_take_the_images_is_one_line() -> None:
    scripted = torch.jit.script(patches())
    with pytest.raises(MemberError, match=r"cannot take images of shape \(1, 1, 9, 9\): RuntimeError: ") as refused:
        Smoothed(scripted, NOISE).predict(torch.rand(1, 9, 9))
    assert "\n" not in str(refused.value)
    assert "Traceback" not in str(refused.value)
