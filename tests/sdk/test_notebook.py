"""What a notebook shows of a certificate."""

from __future__ import annotations

import re

import numpy as np
import pytest

from smoothcert.certificate import Certificate
from smoothcert.noise import Gaussian
from smoothcert.notebook import html, sentence
from smoothcert.procedures import Adaptive, Fixed, Sequential, run
from smoothcert.procedures.parameters import Parameters


def certificate(procedure: Parameters, p: float = 0.99, alpha: float = 0.001, **said: object) -> Certificate:
    rng, noise = np.random.default_rng(1), Gaussian(0.25)
    radius = None if procedure.name == "fixed" else 0.25  # type: ignore[attr-defined]
    verdict = run(
        procedure.start(noise, radius, alpha=alpha, beta=0.001), lambda n: rng.multinomial(n, [p, 1 - p, 0.0])
    )
    return Certificate.of(
        verdict, noise=noise, procedure=procedure, alpha=alpha, beta=0.001, target_radius=radius, **said
    )


@pytest.mark.parametrize("procedure", [Adaptive(), Sequential(), Fixed(n=1000)])
def test_what_is_proved_is_said_in_words(procedure: Parameters) -> None:
    shown = certificate(procedure, class_name="ship")
    text = shown._repr_html_()
    assert "changes the answer &#x27;ship&#x27;, with 99.9 % confidence." in text
    assert f"below {shown.radius:g} changes" in text
    assert f"{shown.samples:,}" in text
    assert text.count("<div") == text.count("</div>")
    assert "probability of the class" in text


def test_an_abstention_claims_nothing() -> None:
    shown = certificate(Adaptive(), p=0.5)
    assert shown.decision == "abstain"
    assert "nothing is claimed" in shown._repr_html_()


def test_confidence_is_never_rounded_to_certainty() -> None:
    assert "with 99.99999999 % confidence" in sentence(certificate(Fixed(n=1000), alpha=1e-10))


def test_everything_is_escaped() -> None:
    text = certificate(Adaptive(), class_name="<script>alert('x')</script>\"&")._repr_html_()
    assert "<script" not in text
    assert set(re.findall(r"<(\w+)", text)) <= {"div", "p", "b", "table", "tr", "th", "td", "details", "summary"}


def test_an_image_is_shown_and_nothing_else_as_one() -> None:
    shown = certificate(Adaptive())
    assert "src='data:image/png;base64,iVBORw==" in html(shown, b"\x89PNG")
    assert "<img" not in html(shown, b"<svg onload=alert(1)>")
    assert "<img" not in html(shown)


def test_many_stages_are_cut_to_the_last() -> None:
    shown = certificate(Sequential(), p=0.86)
    assert len(shown.stages) > 12
    text = html(shown)
    assert f"{len(shown.stages)} stages, the last 12 of them" in text
    assert text.count("<tr><td>") == 12
