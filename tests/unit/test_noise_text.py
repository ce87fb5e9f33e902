"""A noise on a command line and in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import torch

from smoothcert.errors import DomainError
from smoothcert.noise import NOISES, Gaussian, parse_noise, resolve, stated


@pytest.mark.parametrize(
    "text",
    [
        "gaussian:sigma=0.25",
        "gaussian:sigma=.25",
        " gaussian : sigma = 2.5e-1 ",
        "gaussian:sigma=0.25,norm=l2",
        '{"name": "gaussian", "sigma": 0.25}',
        ' {"name": "gaussian", "sigma": 0.25, "norm": "l2"}',
    ],
)
def test_both_forms_name_the_noise(text: str) -> None:
    assert parse_noise(text) == Gaussian(0.25)


def test_a_whole_number_becomes_a_float() -> None:
    noise = parse_noise("gaussian:sigma=1")
    assert noise == Gaussian(1.0)
    assert type(noise.sigma) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'': must be one of 'gaussian'.*, got ''"),
        ("loud", "'loud': must be one of 'gaussian'.*, got 'loud'"),
        ("0.25", "must be one of 'gaussian'.*, got '0.25'"),
        ("gaussian", "gaussian.sigma: is missing"),
        ("gaussian:", "gaussian.sigma: is missing"),
        ("gaussian:sigma", "must be like gaussian:sigma=0.25 or a JSON object, got 'gaussian:sigma'"),
        ("gaussian:sigma=", "must be like gaussian:sigma=0.25"),
        ("gaussian:=1", "must be like gaussian:sigma=0.25"),
        ("gaussian:sigma=0.25,", "must be like gaussian:sigma=0.25"),
        ("gaussian:sigma=0,25", "got 'gaussian:sigma=0,25'; a number has a decimal point, and a comma begins the next"),
        ("gaussian:sigma=1,sigma=2", "has the parameter sigma twice"),
        ("gaussian:sigma=1,name=gaussian", "has the parameter name twice"),
        ("gaussian:sigma=0", "gaussian.sigma: must be more than 0, got 0"),
        ("gaussian:sigma=nan", "gaussian.sigma: .*, got nan"),
        ("gaussian:sigma=" + "9" * 5000, "gaussian.sigma: "),
        ("gaussian:sigma=wide", "gaussian.sigma: .*, got 'wide'"),
        ("gaussian:sigma=1,norm=l1", "gaussian.norm: .*, got 'l1'"),
        ("gaussian:sigma=1,tau=2", "gaussian.tau: there is no such field, got 2"),
        ('{"name": "gaussian"', "is not valid JSON"),
        ('{"name": "gaussian", "sigma": 1, "sigma": 2}', "is not valid JSON: .*sigma"),
        ('{"name": null}', "must be one of 'gaussian'.*, got None"),
        ('{"name": []}', r"must be one of 'gaussian'.*, got \[\]"),
        ('{"x":' * 100_000, "is not valid JSON"),
        ('{"sigma": 0.25}', "must have the field 'name', got {'sigma': 0.25}"),
    ],
)
def test_any_other_text_is_refused_with_what_was_seen(text: str, message: str) -> None:
    with pytest.raises(DomainError, match=f"noise .*{message}"):
        parse_noise(text)


def test_a_file_states_gaussian_noise_by_its_shorthand() -> None:
    assert stated(Gaussian(0.25)) == {"sigma": 0.25}
    assert resolve(**stated(Gaussian(0.25))) == Gaussian(0.25)


@dataclass(frozen=True)
class Rounded(Gaussian):
    name: Literal["rounded"] = field(default="rounded", kw_only=True)  # type: ignore[assignment]


def test_a_noise_derived_from_gaussian_noise_is_not_gaussian_noise() -> None:
    assert stated(Rounded(0.25)) == {"noise": {"name": "rounded", "norm": "l2", "sigma": 0.25}}


class Nameless:
    pass


class Freely:
    name: str


class TwoNames:
    name: Literal["a", "b"]


@pytest.mark.parametrize("kind", [Nameless, Freely, TwoNames, Gaussian(0.25), "gaussian"])
def test_a_type_without_one_name_cannot_be_a_noise(kind: Any) -> None:
    with pytest.raises(DomainError, match=r"a noise must be a class with a field `name: Literal.*; got .*"):
        NOISES.add(kind)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_perturbed_images_are_those_of_randn_like(layout: torch.memory_format) -> None:
    """Training draws its noise this way, and a resumed run must see the noise that an uninterrupted one sees."""
    images = torch.rand(4, 3, 8, 8).contiguous(memory_format=layout)
    torch.manual_seed(1)
    expected = images + 0.25 * torch.randn_like(images)
    torch.manual_seed(1)
    assert torch.equal(Gaussian(0.25).perturb(images), expected)


def test_perturbed_images_follow_from_their_generator() -> None:
    images = torch.rand(4, 3, 8, 8)
    expected = images + 0.25 * torch.randn(images.shape, generator=torch.Generator().manual_seed(7))
    assert torch.equal(Gaussian(0.25).perturb(images, torch.Generator().manual_seed(7)), expected)
