"""What a client says about the preparation of an image is bounded, repeated in the certificate, and not checked."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from smoothcert import Certificate, verify
from smoothcert.errors import CertificateError
from smoothcert.examination import examine
from smoothcert.preparation import Preparation
from smoothcert.procedures import Fixed
from smoothcert.request import MOST_PREPARED, CertificationRequest
from tests.support.certificates import certificate_of, provenance_of

PREPARED = Preparation(source=(640, 320), box=(160, 0, 480, 320), by="browser")


def certificate(prepared: Preparation | None) -> Certificate:
    provenance = provenance_of((3, 8, 8))
    stated = provenance.input.model_copy(update={"prepared": prepared})
    return certificate_of(Fixed(n=100), 0.99, provenance=provenance.model_copy(update={"input": stated}))


def test_a_certificate_states_it_under_its_digest_and_says_that_it_is_not_checked() -> None:
    made = certificate(PREPARED)
    stated = json.loads(made.to_json())["provenance"]["input"]["prepared"]
    assert stated == {"source": [640, 320], "box": [160, 0, 480, 320], "by": "browser", "checked": False}
    assert Certificate.from_json(made.to_json()) == made
    note = next(each for each in examine(made.to_json().encode()).notes if "client" in each)
    assert "It says that it made it of the box from (160, 0) to (480, 320) of a source of 640 x 320 pixels" in note
    assert "not checked" in note
    changed = made.to_json().replace("640", "641")
    assert "digest" in [each.field for each in verify(Certificate.from_json(changed)).problems]


def test_it_cannot_be_passed_off_as_checked() -> None:
    with pytest.raises(CertificateError, match="checked"):
        Certificate.from_json(certificate(PREPARED).to_json().replace('"checked": false', '"checked": true'))


def test_a_certificate_and_a_request_without_it_are_written_as_before() -> None:
    assert "prepared" not in certificate(None).to_json()
    assert "prepared" not in CertificationRequest().model_dump(mode="json")
    assert "prepared" in CertificationRequest(prepared=(PREPARED, None)).model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"box": [0, 0, 641, 320]}, "right <= 640"),
        ({"box": [0, 0, 640, 321]}, "bottom <= 320"),
        ({"box": [480, 0, 480, 320]}, "left < right"),
        ({"box": [-1, 0, 480, 320]}, "greater than or equal to 0"),
        ({"box": [0, 0, math.nan, 320]}, "finite"),
        ({"box": ["0", 0, 480, 320]}, "valid number"),
        ({"box": [True, 0, 480, 320]}, "valid number"),
        ({"box": [-0.0, 0, 480, 320]}, "0 <= left"),
        ({"by": 'x"), which is checked ("'}, "pattern"),
        ({"by": "a\u202eb"}, "pattern"),
        ({"by": "a\x85b"}, "pattern"),
        ({"source": [0, 320]}, "greater than or equal to 1"),
        ({"source": [1 << 21, 320]}, "less than or equal to 1048576"),
        ({"by": ""}, "pattern"),
        ({"by": "x" * 101}, "pattern"),
        ({"by": "a\nb"}, "pattern"),
        ({"checked": True}, "False"),
        ({"colour": "red"}, "Extra"),
    ],
)
def test_what_cannot_have_been_done_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Preparation.model_validate({**PREPARED.model_dump(mode="json"), **change})


def test_there_are_no_more_entries_than_images_of_any_request() -> None:
    with pytest.raises(ValidationError, match=f"at most {MOST_PREPARED} items"):
        CertificationRequest(prepared=(None,) * (MOST_PREPARED + 1))
