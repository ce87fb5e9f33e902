"""Certificates in terminals and notebooks: one is shown in a line, several in a table."""

from __future__ import annotations

import ast
import re

import pytest

from smoothcert.certificates import MOST_ROWS, Certificates
from smoothcert.client.errors import InvalidRequestError
from smoothcert.client.fields import make_request
from smoothcert.procedures import Adaptive
from smoothcert.request import CertificationRequest
from tests.support.certificates import certificate_of

SAMPLES = (
    "the number of samples belongs to the procedure, {'name': 'optimal', 'max_samples': 1000} with a radius to prove "
    "and {'name': 'fixed', 'n': 1000} without one; predict takes `n`"
)
CERTIFIED = certificate_of(Adaptive(), 0.99)
ABSTAINED = certificate_of(Adaptive(), 0.5)


def test_a_certificate_is_one_line() -> None:
    assert repr(CERTIFIED) == (
        f"<Certificate certified: 'ship' within {CERTIFIED.radius:g}, gaussian, sigma 0.25, adaptive, 200 samples>"
    )
    assert repr(ABSTAINED).startswith("<Certificate abstain, ")
    assert str(CERTIFIED) == repr(CERTIFIED)
    hostile = CERTIFIED.model_copy(update={"class_name": "a\nb\x1b[2J"})
    assert repr(hostile).isprintable()


def test_several_are_a_table_and_still_a_list() -> None:
    found = Certificates([CERTIFIED, ABSTAINED])
    lines = repr(found).splitlines()
    assert lines[0] == "2 certificates: 1 certified, 1 abstained"
    assert lines[1].split() == ["decision", "class", "radius", "p_A", "samples"]
    assert lines[2].split()[:4] == ["0", "certified", "ship", f"{CERTIFIED.radius:g}"]
    assert lines[2].endswith(f"{CERTIFIED.samples:,}")
    assert lines[3].split()[:4] == ["1", "abstain", "–", "–"]
    assert lines[2].index("certified") == lines[3].index("abstain")
    assert found == [CERTIFIED, ABSTAINED]
    assert isinstance(found, list)
    assert repr(Certificates()) == "0 certificates"


def test_a_long_list_shows_its_ends() -> None:
    lines = repr(Certificates([CERTIFIED] * 1000)).splitlines()
    assert len(lines) == 2 + MOST_ROWS + 1
    assert lines[-1].startswith("999 ")


def test_a_notebook_gets_html_without_markup_of_strangers() -> None:
    hostile = CERTIFIED.model_copy(update={"class_name": "<script>"})
    text = Certificates([CERTIFIED, hostile])._repr_html_()
    assert "<td>ship" in text
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("misspelt", "sentence"),
    [
        ("raduis", "there is no argument raduis, did you mean radius?"),
        ("wait_timout", "there is no argument wait_timout, did you mean wait_timeout?"),
        ("proceedure", "there is no argument proceedure, did you mean procedure?"),
        ("xyzzy", "there is no argument xyzzy"),
        *((word, f"there is no argument {word}: {SAMPLES}") for word in ("sampels", "samples", "max_samples", "n")),
    ],
)
def test_a_misspelt_argument_is_named_with_the_nearest(misspelt: str, sentence: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        make_request({misspelt: 1}, CertificationRequest)  # type: ignore[misc]
    assert str(caught.value) == sentence


def test_the_procedures_that_the_sentence_about_samples_names_are_those_of_questions_without_one() -> None:
    for procedure, radius in zip(map(ast.literal_eval, re.findall(r"\{.*?\}", SAMPLES)), (0.25, None), strict=True):
        unnamed = make_request({"radius": radius}, CertificationRequest)
        assert make_request({"radius": radius, "procedure": procedure}, CertificationRequest) != unnamed
        assert unnamed.procedure.name == procedure["name"]


def test_an_old_name_of_an_argument_is_accepted() -> None:
    old: dict[str, object] = {"allow_sigma_mismatch": True}
    assert make_request(old, CertificationRequest).allow_noise_mismatch  # type: ignore[arg-type]
