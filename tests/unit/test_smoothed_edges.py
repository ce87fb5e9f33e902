"""Inputs that people really pass to Smoothed: numbers of numpy, loaders without labels, sets of names, own noises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from smoothcert import Certificate, Gaussian, Smoothed, verify
from smoothcert.engine.errors import MemberError, NormalisationError, PixelsError
from smoothcert.errors import DomainError
from smoothcert.procedures import Fixed

IMAGES = torch.tensor([0.1, 0.9, 0.8]).view(3, 1, 1, 1).expand(3, 3, 8, 8).contiguous()


def lightness() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(3, 2)).eval()
    weights = {"weight": torch.tensor([[-9.0] * 3, [9.0] * 3]), "bias": torch.tensor([13.5, -13.5])}
    model[2].load_state_dict(weights)
    return model


@pytest.mark.parametrize("sigma", [np.float64(0.25), np.float32(0.25), np.float16(0.25)])
def test_numbers_of_numpy_make_certificates_that_read_back(sigma: float) -> None:
    with Smoothed(lightness(), Gaussian(sigma)) as smoothed:
        for radius in np.linspace(0.1, 0.2, 2):
            certificate = smoothed.certify(IMAGES, radius)[0]
            assert Certificate.from_json(certificate.to_json()) == certificate
            assert verify(certificate)


def test_a_batch_of_numpy_s_numbers_is_run() -> None:
    with Smoothed(lightness(), Gaussian(0.25), batch=np.int64(8)) as smoothed:  # type: ignore[arg-type]
        assert smoothed.predict(IMAGES, n=100) == [0, 1, 1]


def test_a_sigma_that_no_reader_accepts_is_refused_at_once() -> None:
    with pytest.raises(DomainError, match=r"sigma must be at most 100, got 101"):
        Gaussian(101)
    assert Gaussian(80).scaled(2) is None


@pytest.mark.parametrize("classes", [{"dark", "light"}, iter(["dark", "light"]), "ab"])
def test_class_names_have_an_order(classes: object) -> None:
    with pytest.raises(MemberError, match="classes must be a list of names or their number"):
        Smoothed(lightness(), Gaussian(0.25), classes=classes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Mine(Gaussian):
    """A noise that was never added to NOISES."""


def test_a_noise_that_is_not_registered_is_refused_before_any_sample() -> None:
    with pytest.raises(DomainError, match=r"Mine is not registered: call NOISES\.add\(Mine\)"):
        Smoothed(lightness(), Mine(0.25))


@pytest.mark.parametrize("mean", [0.5, np.float32(0.5), torch.full((3, 1, 1), 0.5), np.full(3, 0.5), [0.5] * 3])
def test_normalisations_come_in_many_forms(mean: object) -> None:
    with Smoothed(lightness(), Gaussian(0.25), mean=mean, std=[1.0] * 3) as smoothed:  # type: ignore[arg-type]
        assert smoothed.predict(IMAGES, n=100)[0] == 0
    with pytest.raises(NormalisationError, match="mean must be a number or one number per channel, got 'a'"):
        Smoothed(lightness(), Gaussian(0.25), mean="a", std=1.0).certify(IMAGES, 0.1)  # type: ignore[arg-type]


def test_a_loader_without_labels_is_certified() -> None:
    loader = DataLoader(TensorDataset(IMAGES), batch_size=2)
    with Smoothed(lightness(), Gaussian(0.25)) as smoothed:
        certificates = list(smoothed.certify_many(loader, procedure=Fixed(n=100)))
        assert [each.class_index for each in certificates] == [0, 1, 1]
        triples = DataLoader(TensorDataset(IMAGES, torch.arange(3), torch.arange(3)), batch_size=2)
        with pytest.raises(DomainError, match="the loader must yield images or pairs"):
            list(smoothed.certify_many(triples, procedure=Fixed(n=100)))


def test_one_labelled_image_is_evaluated() -> None:
    with Smoothed(lightness(), Gaussian(0.25)) as smoothed:
        report = smoothed.evaluate((IMAGES[1], [1]), procedure=Fixed(n=100))
    assert report.figures["images"] == 1


def test_pixels_just_above_one_are_to_be_clamped() -> None:
    with pytest.raises(PixelsError, match=r"to 1\.0000001.*clamp them"):
        Smoothed(lightness(), Gaussian(0.25)).certify(IMAGES.clamp(min=0.5) * 0 + 1.0000001, 0.1)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.full((2, 3, 8, 8), float("nan")), "not finite"),
        (torch.ones(2, 3, 8, 8, dtype=torch.int64), "dtype torch.int64"),
    ],
)
def test_diagnose_refuses_the_pixels_that_certify_refuses(images: torch.Tensor, message: str) -> None:
    with pytest.raises(PixelsError, match=message):
        Smoothed(lightness(), Gaussian(0.25)).diagnose(images, [0, 1])


def test_few_images_are_not_called_guessing() -> None:
    text = str(Smoothed(lightness(), Gaussian(0.25)).diagnose(IMAGES, [0, 1, 1]))
    assert "too few images" in text
    assert "no better than guessing" not in text
