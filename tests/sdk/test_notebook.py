"""A certificate in a notebook."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from smoothcert import Client
from smoothcert.certificate import Certificate
from smoothcert.client.images import encode
from smoothcert.client.picture import picture
from smoothcert.figures import interval_text, levels_text, radius_text
from smoothcert.noise import Gaussian, GaussianLinf, Replacement, RoundedGaussian, Splitting, Uniform
from smoothcert.norms import perturbation
from smoothcert.notebook import consequence, html, sentence
from smoothcert.procedures import Adaptive, Fixed, Sequential, run
from smoothcert.procedures.parameters import Parameters
from smoothcert.verification import verify
from tests.support.certificates import certificate_of, provenance_of
from tests.support.command import png
from tests.support.questions import QUICK


def certificate(procedure: Parameters, p: float = 0.99, alpha: float = 0.001, **fields: object) -> Certificate:
    rng, noise = np.random.default_rng(1), Gaussian(0.25)
    radius = None if procedure.name == "fixed" else 0.25  # type: ignore[attr-defined]
    verdict = run(
        procedure.start(noise, radius, alpha=alpha, beta=0.001), lambda n: rng.multinomial(n, [p, 1 - p, 0.0])
    )
    return Certificate.of(
        verdict, noise=noise, procedure=procedure, alpha=alpha, beta=0.001, target_radius=radius, **fields
    )


@pytest.mark.parametrize("procedure", [Adaptive(), Sequential(), Fixed(n=1000)])
def test_the_claim_is_stated_in_words(procedure: Parameters) -> None:
    shown = certificate(procedure, class_name="ship")
    text = shown._repr_html_()
    assert "changes the answer &#x27;ship&#x27;, with 99.9 % confidence." in text
    assert f"below {shown.radius!r}, with float32 taken for real numbers, changes" in text
    assert f"{shown.samples:,}" in text
    assert text.count("<div") == text.count("</div>")
    assert "probability of the class" in text


@pytest.mark.parametrize(
    ("noise", "radius", "words"),
    [
        (Gaussian(0.25), 0.25, "of Euclidean length below 0.25, with float32 taken for real numbers,"),
        (RoundedGaussian(0.25), 0.25, "of Euclidean length below 0.25, among 8-bit images,"),
        (Uniform(1.0), 0.25, "whose absolute changes add up to less than 0.25, among 8-bit images,"),
        (Replacement(0.8, 2), 3.0, "that changes at most 3 values, whatever they become,"),
        (Replacement(0.8, 2), 1.0, "that changes at most 1 value, whatever it becomes,"),
        (
            GaussianLinf(0.25, 3072),
            0.03,
            "that changes each value by less than 0.03, with float32 taken for real numbers,",
        ),
        (Splitting(1.0), 0.25, "whose absolute changes add up to at most 0.25, among 8-bit images,"),
        (
            SimpleNamespace(norm="wasserstein", eight_bit=False, closed=False, proviso=""),
            0.1,
            "of wasserstein norm below 0.1",
        ),
    ],
)
def test_the_words_follow_the_noise_and_its_norm(noise: Any, radius: float, words: str) -> None:
    assert perturbation(noise, radius) == f"perturbation {words}"


@pytest.mark.parametrize(
    ("noise", "radius", "facts", "others"),
    [
        (
            Gaussian(1.0),
            1.5,
            "<th style='text-align:left'>radius</th><td>1.5</td>",
            "for every perturbation whose absolute changes add up to less than 1.5 or that changes each value by "
            "less than 0.433012 or that changes at most 2 values and keeps them in [0, 1].",
        ),
        (
            Uniform(2.0),
            1.5,
            "<td>1.5</td>",
            "the same holds among 8-bit images for every perturbation of Euclidean length below 0.433594 or that "
            "changes each value by less than 0.125 or that changes at most 1 value.",
        ),
        (
            GaussianLinf(0.25, 12),
            0.03,
            "<td>0.03 (7.65 of 255 levels)</td>",
            "of Euclidean length below 0.103923 or whose absolute changes add up to less than 0.103923.",
        ),
        (Replacement(0.8, 2), 3.0, "target radius</th><td>3 values</td>", None),
    ],
)
def test_facts_and_consequences_follow_the_norm(noise: Any, radius: float, facts: str, others: str | None) -> None:
    shown = certificate_of(Adaptive(), 0.9999, noise=noise, radius=radius, provenance=provenance_of((3, 2, 2)))
    shown = shown.model_copy(update={"radius": radius})
    text = shown._repr_html_()
    assert facts in text
    found = consequence(shown)
    assert (found is None) == (others is None)
    if found is not None and others is not None:
        assert found.endswith(others)
        assert f"<p>{found}</p>" in text


def test_a_radius_of_zero_is_about_the_image_alone() -> None:
    shown = certificate(Fixed(n=1000), class_name="ship").model_copy(update={"radius": 0.0})
    assert sentence(shown) == (
        "The answer at the image itself is 'ship', with 99.9 % confidence; nothing is claimed about perturbations."
    )
    assert consequence(shown) is None


def test_levels_are_rounded_down() -> None:
    assert [*map(levels_text, (0.010493, 0.02, 0.0, 1.0))] == [
        f"{levels} of 255 levels" for levels in ("2.67", "5.1", "0", "255")
    ]


def test_an_abstention_claims_nothing() -> None:
    shown = certificate(Adaptive(), p=0.5)
    assert shown.decision == "abstain"
    assert "nothing is claimed" in shown._repr_html_()


def test_rounding_never_claims_more_than_was_proved() -> None:
    assert [*map(radius_text, (1.861189, 0.25, 12.0, 0.000001))] == ["1.861189", "0.25", "12", "0.000001"]
    assert interval_text((0.84999, 0.90001), 4) == "0.8499 to 0.9001"
    assert interval_text((0.0, 1.0), 4) == "0.0000 to 1.0000"


def test_confidence_is_never_rounded_to_certainty() -> None:
    assert "with 99.99999999 % confidence" in sentence(certificate(Fixed(n=1000), alpha=1e-10))


def test_everything_is_escaped() -> None:
    text = certificate(Adaptive(), class_name="<script>alert('x')</script>\"&")._repr_html_()
    assert "<script" not in text
    assert set(re.findall(r"<(\w+)", text)) <= {"div", "p", "b", "table", "tr", "th", "td", "details", "summary"}


def test_only_pictures_are_shown_as_images() -> None:
    shown = certificate(Adaptive())
    assert "src='data:image/png;base64,iVBORw==" in html(shown, b"\x89PNG")
    assert "<img" not in html(shown, b"<svg onload=alert(1)>")
    assert "<img" not in html(shown)


def test_an_image_beside_a_certificate_does_not_change_it() -> None:
    alone = certificate(Adaptive())
    shown = alone.beside(b"\x89PNG")
    assert "src='data:image/png;base64,iVBORw==" in shown._repr_html_()
    assert "<img" not in alone._repr_html_()
    assert (shown, hash(shown), shown.to_json(), repr(shown)) == (alone, hash(alone), alone.to_json(), repr(alone))
    assert verify(shown)


def drawn(shown: Certificate) -> bytes:
    """The image file inside the HTML."""
    found = re.search(r"src='data:image/\w+;base64,([^']+)'", shown._repr_html_())
    assert found
    return base64.b64decode(found[1])


def test_the_certificates_of_files_show_them(client: Client, tmp_path: Path) -> None:
    (tmp_path / "light.png").write_bytes(png(255))
    assert [drawn(each) for each in client.certify([png(0), tmp_path / "light.png"], **QUICK)] == [png(0), png(255)]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("channels", ["first", "last"])
def test_the_certificate_of_an_array_shows_its_pixels(client: Client, dtype: type, channels: str) -> None:
    pixels = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    array = pixels if dtype is np.uint8 else (pixels / 255).astype(dtype)
    shown = client.certify(array if channels == "last" else array.transpose(2, 0, 1), **QUICK)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(drawn(shown)))), pixels)


def test_only_a_small_picture_is_shown() -> None:
    assert picture(encode(np.zeros((4, 8, 8), np.uint8)).sent) is None
    assert picture(encode(bytes(750_001)).sent) is None
    assert picture(encode(bytes(750_000)).sent) is not None


def test_many_stages_are_cut_to_the_last() -> None:
    shown = certificate(Sequential(), p=0.86)
    assert len(shown.stages) > 12
    text = html(shown)
    assert f"{len(shown.stages)} stages, the last 12 of them" in text
    assert text.count("<tr><td>") == 12
