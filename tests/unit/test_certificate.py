"""Certificates survive a round trip, and every alteration is found, with and without a new digest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from smoothcert.certificate import Certificate
from smoothcert.errors import CertificateError
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Sequential
from smoothcert.question import FamilyWise
from smoothcert.verification import verify
from tests.support.certificates import altered, certificate_of

PROCEDURES: list[AnyProcedure] = [
    Fixed(n=1000),
    Adaptive(stages=(50, 500, 2000)),
    Adaptive(stages=(50, 500, 2000), keep_samples=True),
    Sequential(max_samples=2000),
    Sequential(max_samples=2000, abandon="lost-certificate"),
]


def leaves(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The path and the value of every leaf of a JSON document."""
    if isinstance(document, dict | list) and document:
        items = document.items() if isinstance(document, dict) else enumerate(document)
        return [leaf for key, value in items for leaf in leaves(value, (*path, key))]
    return [(path, document)]


procedures = st.sampled_from(PROCEDURES)
p_as = st.sampled_from([0.4, 0.7, 0.8413, 0.9, 0.97, 1.0])


@settings(max_examples=60)
@given(procedures, p_as, st.integers(0, 2**32 - 1), st.floats(0.01, 0.6))
def test_the_certificate_of_any_run_survives_json_and_verifies(
    procedure: AnyProcedure, p_a: float, seed: int, radius: float
) -> None:
    certificate = certificate_of(procedure, p_a, seed, radius)
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).problems == ()
    assert bool(verify(again)) is True


@settings(max_examples=150)
@given(procedures, p_as, st.integers(0, 2**32 - 1), st.data())
def test_any_single_alteration_is_found(procedure: AnyProcedure, p_a: float, seed: int, data: st.DataObject) -> None:
    certificate = certificate_of(procedure, p_a, seed)
    path, value = data.draw(st.sampled_from(leaves(json.loads(certificate.to_json()))))
    try:
        changed = altered(certificate, list(path), other_than(value, data), signed=False)
    except ValueError:
        return  # it is not even a certificate
    assume(changed != certificate)
    found = verify(changed)
    assert not found
    assert any(problem.field == "digest" for problem in found.problems)


def other_than(value: Any, data: st.DataObject) -> Any:
    """Another value, of the same type if possible."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + data.draw(st.sampled_from([-1, 1, 7]))
    if isinstance(value, float):
        return value * data.draw(st.sampled_from([0.5, 1.001, 1 - 1e-12]))
    if isinstance(value, str):
        return data.draw(st.sampled_from(["abstain", "certified", "exhausted", "abandoned", "strict", value + "x"]))
    return data.draw(st.sampled_from([0, 0.5, "x"]))


DERIVED = [
    (["decision"], "abstain"),
    (["class_index"], 0),
    (["radius"], 0.26),
    (["p_lower"], 0.9),
    (["samples"], 101),
    (["stop_reason"], "exhausted"),
    (["alpha"], 0.00001),
    (["target_radius"], 0.5),
    (["noise", "sigma"], 0.2),
    (["stages", 0, "n"], 51),
    (["stages", 0, "count"], 51),
    (["stages", 0, "outcome"], "exhausted"),
    (["stages", 0, "counts", 0], 40),
    (["selection", 0], 50),
    (["procedure", "n0"], 99),
]


@pytest.mark.parametrize("procedure", PROCEDURES[1:], ids=lambda p: p.model_dump_json())
@pytest.mark.parametrize(("path", "value"), DERIVED, ids=lambda x: str(x))
def test_a_new_digest_does_not_hide_an_alteration(procedure: AnyProcedure, path: list[Any], value: Any) -> None:
    """What follows from the counts is recomputed from them; the message names the altered or broken field."""
    certificate = certificate_of(procedure, 0.9)
    assert certificate.decision == "certified"
    found = verify(altered(certificate, path, value, signed=True))
    assert not found
    fields = [problem.field for problem in found.problems]
    assert "digest" not in fields
    if path[0] not in ("alpha", "target_radius", "noise", "procedure"):  # a change there changes other fields
        assert any(field.startswith(str(path[0])) for field in fields), fields


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda p: p.model_dump_json())
def test_stages_cannot_be_dropped_or_added(procedure: AnyProcedure) -> None:
    certificate = certificate_of(procedure, 0.9)
    for stages in (certificate.stages[:-1], (*certificate.stages, certificate.stages[-1])):
        changed = certificate.model_copy(update={"stages": stages})
        changed = changed.model_copy(update={"digest": changed.expected_digest()})
        (problem,) = verify(changed).problems
        assert problem.field == "stages"


def test_a_message_names_what_was_seen_and_what_the_counts_give() -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    (problem,) = verify(altered(certificate, ["samples"], 7, signed=True)).problems
    assert str(problem) == f"samples: is 7, the counts give {certificate.samples}"


def test_family_wise_alpha_is_checked() -> None:
    shared = FamilyWise(alpha=0.01, images=10)
    assert verify(certificate_of(Adaptive(), 0.9, alpha=0.001, family_wise=shared))
    (problem,) = verify(certificate_of(Adaptive(), 0.9, alpha=0.01, family_wise=shared)).problems
    assert problem.field == "alpha"


def test_an_abstention_names_no_class_and_no_radius() -> None:
    certificate = certificate_of(Adaptive(), 0.5)
    assert (certificate.decision, certificate.class_index, certificate.radius) == ("abstain", None, 0.0)
    assert verify(certificate)


def test_a_fixed_procedure_has_no_target() -> None:
    certificate = certificate_of(Fixed(n=1000), 0.9)
    (problem,) = verify(altered(certificate, ["target_radius"], 0.2, signed=True)).problems
    assert problem.field == "target_radius"


def test_an_impossible_test_is_a_problem_not_a_crash() -> None:
    changed = altered(certificate_of(Sequential(), 0.9), ["target_radius"], 50.0, signed=True)
    (problem,) = verify(changed).problems
    assert problem.field == "procedure"


def test_the_reported_radius_is_floored() -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    assert certificate.p_lower is not None
    exact = certificate.noise.radius(certificate.p_lower)
    assert certificate.radius <= exact < certificate.radius + 1e-6
    assert round(certificate.radius, 6) == certificate.radius


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "the text"),
        ("{", "the text"),
        ("[]", "the text"),
        ('{"radius": 1}', "decision"),
        ('{"unknown": 1}', "unknown"),
    ],
)
def test_what_is_not_a_certificate_is_refused(text: str, seen: str) -> None:
    with pytest.raises(CertificateError, match=seen):
        Certificate.from_json(text)


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ('"alpha": 0.001', '"alpha": "0.001"', "alpha"),
        ('"beta": 0.002', '"beta": 2e-3, "beta": 0.002', "beta"),
        ('"index": 0,', "", "index"),
        ('"class_name": "ship",', "", "class_name"),
        ('"format": "smoothcert/certificate/2",', "", "format"),
        ('"family_wise": null,', "", "family_wise"),
    ],
)
def test_a_text_that_others_may_read_differently_is_refused(old: str, new: str, seen: str) -> None:
    """Here each of them means the same and has the same digest, but another reader may differ."""
    text = certificate_of(Adaptive(), 0.9).to_json()
    assert old in text
    Certificate.model_validate_json(text.replace(old, new))
    with pytest.raises(CertificateError, match=seen):
        Certificate.from_json(text.replace(old, new))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["selection", 0], 2**63),
        (["selection", 0], 2**53),
        (["samples"], 10**400),
        (["family_wise"], {"alpha": 0.5, "images": 10**400}),
        (["procedure"], {"name": "fixed", "n0": 100, "n": 2**62}),
        (["procedure"], {"name": "sequential", "n0": 100, "max_samples": 10**12, "abandon": "strict"}),
        (["procedure", "stages"], list(range(1, 1000))),
    ],
)
def test_numbers_too_large_to_count_to_are_refused_at_once(path: list[Any], value: Any) -> None:
    """A certificate must not make a verifier work for hours, or crash it."""
    with pytest.raises(ValueError, match=str(path[0])):
        altered(certificate_of(Adaptive(), 0.9), path, value, signed=True)


@pytest.mark.parametrize("more", [1e-6, 1e-5])
def test_a_radius_is_not_a_digit_more_than_was_proved(more: float) -> None:
    for procedure in PROCEDURES[1:]:
        certificate = certificate_of(procedure, 0.9)
        changed = altered(certificate, ["radius"], round(certificate.radius + more, 6), signed=True)
        assert [problem.field for problem in verify(changed).problems] == ["radius"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["alpha"], 0),
        (["alpha"], 1.0),
        (["beta"], "NaN"),
        (["noise", "sigma"], 0),
        (["noise", "name"], "laplace"),
        (["radius"], -0.1),
        (["selection", 0], -1),
        (["selection", 0], 1.5),
        (["selection", 0], True),
        (["procedure", "name"], "hope"),
        (["procedure", "stages"], [100, 100]),
        (["procedure", "stages"], []),
        (["format"], "smoothcert/certificate/3"),
        (["class_name"], "x" * 1_001),
    ],
)
def test_values_outside_their_domain_are_refused_by_name(path: list[Any], value: Any) -> None:
    with pytest.raises(ValueError, match=str(path[0])):
        altered(certificate_of(Adaptive(), 0.9), path, value, signed=True)
