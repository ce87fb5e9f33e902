"""The counts of a certificate take few bytes for many classes, are complete for few, and have only one form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.http.body import require_one_reading
from app.requests.intake import CERTIFICATE_BYTES
from smoothcert.certificate import FORMATS, Certificate
from smoothcert.counts import NAMED, SampleCounts
from smoothcert.errors import CertificateError
from smoothcert.noise import Gaussian, Noise, Splitting
from smoothcert.procedures import Adaptive, AnyProcedure, Exact, Fixed, Largest, Optimal, Sequential, run
from smoothcert.verdict import Verdict
from smoothcert.verification import verify
from tests.support.certificates import altered

GOLDEN = Path(__file__).parent / "golden" / "fixed.json"
NOISE = Gaussian(0.25)
PROCEDURES: list[AnyProcedure] = [
    Fixed(n=1000),
    Adaptive(stages=(50, 500, 2000)),
    Sequential(max_samples=2000),
    Largest(max_samples=2000),
    Optimal(max_samples=2000),
    Optimal(max_samples=2000, n0=50),
    Exact(),
]


def verdict_of(
    procedure: AnyProcedure, shares: Any, seed: int = 0, *, noise: Noise = NOISE, radius: float = 0.16
) -> Verdict:
    rng = np.random.default_rng(seed)
    target = radius if procedure.targeted else None
    return run(procedure.start(noise, target, alpha=0.001, beta=0.001), lambda n: rng.multinomial(n, shares))


def certified(
    verdict: Verdict, procedure: AnyProcedure, *, noise: Noise = NOISE, radius: float = 0.16, **fields: Any
) -> Certificate:
    return Certificate.of(
        verdict,
        noise=noise,
        procedure=procedure,
        alpha=None if procedure.exhaustive else 0.001,
        beta=0.001,
        target_radius=radius if procedure.targeted else None,
        **fields,
    )


def spread(classes: int, top: int, p_a: float) -> list[float]:
    """p_A for one class, equal shares for the others, and nothing without a class."""
    shares = [(1 - p_a) / (classes - 1)] * classes
    shares[top] = p_a
    return [*shares, 0.0]


@pytest.mark.parametrize(("classes", "most"), [(10, 20_000), (1_000, 20_000), (100_000, 20_000)])
def test_a_certificate_of_many_looks_stays_small(classes: int, most: int) -> None:
    """The image is at the boundary, and its other samples fall on all classes: all pairs would take 160 kB."""
    procedure, radius = Sequential(max_samples=30_000 if classes > 1_000 else 100_000), 0.125
    shares = spread(classes, classes // 2, NOISE.probability(radius))
    certificate = certified(verdict_of(procedure, shares, 3, radius=radius), procedure, radius=radius)
    assert len(certificate.stages) > 40
    text = certificate.model_dump_json()
    assert len(text) < most
    require_one_reading(text.encode())  # the service does not refuse to verify it
    assert verify(certificate).problems == ()
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("classes", [10, 1_000, 100_000])
def test_what_a_request_is_expected_to_take_is_about_what_certificates_take(classes: int) -> None:
    """Requests are admitted by this estimate; most certificates have one look or a few."""
    procedure = Sequential(max_samples=10_000)
    provenance = Certificate.from_json(GOLDEN.read_text()).provenance
    sizes = []
    for p_a in (0.99, 0.9):
        verdict = verdict_of(procedure, spread(classes, 7, p_a))
        sizes.append(len(certified(verdict, procedure, provenance=provenance).model_dump_json()))
    assert 0.5 * CERTIFICATE_BYTES < min(sizes) < max(sizes) < CERTIFICATE_BYTES


@settings(max_examples=80)
@given(st.sampled_from(PROCEDURES), st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.2, 1.0, 5.0]))
def test_a_certificate_says_what_the_verdict_says(
    procedure: AnyProcedure, classes: int, seed: int, concentration: float
) -> None:
    """The first edition lists all classes; both must verify, and state the same decision and the same counts."""
    noise = Splitting(0.5) if procedure.exhaustive else NOISE
    shares = np.random.default_rng(seed).dirichlet([concentration] * (classes + 1))
    verdict = verdict_of(procedure, shares, seed, noise=noise)
    listed, sparse = (certified(verdict, procedure, noise=noise, format=each) for each in FORMATS)
    for certificate in (listed, sparse):
        assert verify(certificate).problems == ()
        assert Certificate.from_json(certificate.to_json()) == certificate
    assert (listed.class_index, listed.radius, listed.samples) == (sparse.class_index, sparse.radius, sparse.samples)
    draws = [verdict.selection, *(stage.counts for stage in verdict.stages)]
    found = [sparse.selection, *(stage.counts for stage in sparse.stages)]
    named = set().union(*found)
    for drawn, counts in zip(draws, found, strict=True):
        assert counts.total == sum(drawn)
        assert dict(counts) == {c: n for c, n in enumerate(drawn[:-1]) if n and c in named}
    if procedure.rivals or classes <= NAMED:
        assert all(counts.other == (drawn[-1] if drawn else 0) for drawn, counts in zip(draws, found, strict=True))
    most = np.argsort(-np.sum([each[:-1] for each in draws if each], axis=0), kind="stable")[:NAMED]
    assert sparse.counts.total == sparse.samples
    assert all(sparse.counts[int(c)] == sum(each[c] for each in draws if each) for c in most)


def test_a_class_that_led_for_one_look_is_named() -> None:
    """Without a selection the leader may change, and a verifier must see the one that led."""
    procedure = Optimal(max_samples=2000)
    sent = iter([*range(10_000)])

    def sample(n: int) -> Any:
        counts = np.zeros(31, np.int64)
        if next(sent) == 0:
            counts[29] = n
        else:
            counts[:29] = n // 29
            counts[3] += n - counts.sum()
        return counts

    verdict = run(procedure.start(NOISE, 0.0, alpha=0.001, beta=0.001), sample)
    certificate = certified(verdict, procedure, radius=0.0)
    assert certificate.stages[0].counts == SampleCounts(((29, certificate.stages[0].n),))
    assert verify(certificate).problems == ()


MODEST = Adaptive(stages=(300, 3000))
CERTIFICATE = certified(verdict_of(MODEST, spread(40, 7, 0.9)), MODEST)


def moved(counts: dict[str, int], source: str, to: str) -> dict[str, int]:
    """The counts with one sample moved to another class, so that their sum stays the same."""
    changed = {**counts, source: counts[source] - 1, to: counts.get(to, 0) + 1}
    return {key: count for key, count in changed.items() if count}


def test_a_sample_that_is_moved_under_a_new_digest_is_found() -> None:
    fields = json.loads(CERTIFICATE.to_json())
    counts = fields["stages"][0]["counts"]
    rare = min(counts.keys() - {"other"}, key=lambda key: counts[key])
    changes = [("7", "other"), ("7", rare), (rare, "7"), ("other", "7"), ("other", "39000")]
    for source, to in changes:
        changed = altered(CERTIFICATE, ["stages", 0, "counts"], moved(counts, source, to), signed=True)
        assert not verify(changed), (source, to)
    for path in (["selection"], ["stages", 0, "counts"]):
        more = {**(fields["selection"] if path == ["selection"] else counts)}
        more["7"] += 1
        (problem,) = verify(altered(CERTIFICATE, path, more, signed=True)).problems
        assert "add up to" in problem.message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"7": 95, "3": 0}, "'3' must be a whole number from 1 to"),
        ({"7": 95, "other": 0}, "'other' must be a whole number from 1 to"),
        ({"7": -1}, "must be a whole number from 1 to"),
        ({"7": 95.0}, "must be a whole number from 1 to"),
        ({"7": True}, "must be a whole number from 1 to"),
        ({"7": "95"}, "must be a whole number from 1 to"),
        ({"7": 2**53}, "must be a whole number from 1 to"),
        ({"07": 95}, "must name classes by their numbers, or 'other', got '07'"),
        ({"-1": 95}, "must name classes by their numbers"),
        ({"1e1": 95}, "must name classes by their numbers"),
        ({"٧": 95}, "must name classes by their numbers"),
        ({str(2**53): 95}, "must name classes by their numbers"),
        ({"none": 95}, "must name classes by their numbers"),
        (95, "must be an object of classes and their samples, got 95"),
        (None, "must be an object of classes and their samples, got None"),
    ],
)
def test_there_is_one_way_to_write_counts(value: Any, message: str) -> None:
    fields = json.loads(CERTIFICATE.to_json())
    for place in (fields, fields["stages"][0]):
        name = "counts" if "counts" in place else "selection"
        before, place[name] = place[name], value
        with pytest.raises(CertificateError, match=message):
            Certificate.from_json(json.dumps(fields))
        place[name] = before


def test_a_class_that_comes_twice_is_refused() -> None:
    text = CERTIFICATE.to_json()
    (line,) = [line for line in text.splitlines() if '"7": ' in line][:1]
    with pytest.raises(CertificateError, match="'7' comes twice"):
        Certificate.from_json(text.replace(line, f"{line}{line}", 1))


def test_each_format_has_its_own_form() -> None:
    verdict = verdict_of(Adaptive(), spread(40, 7, 0.95))
    listed, sparse = (certified(verdict, Adaptive(), format=each) for each in FORMATS)
    for certificate, other, form in ((listed, sparse, "a list"), (sparse, listed, "an object")):
        written = json.loads(other.to_json())
        for path, value in ((["selection"], written["selection"]), (["stages"], written["stages"])):
            problems = verify(altered(certificate, path, value, signed=True)).problems
            assert problems[0].message == f"must be {form} in {certificate.format}"


@pytest.mark.parametrize("entries", [[100], [0] * 39 + [100], []])
def test_lists_of_different_lengths_are_found(entries: list[int]) -> None:
    listed = certified(verdict_of(Adaptive(), spread(40, 7, 0.95)), Adaptive(), format=FORMATS[0])
    problems = verify(altered(listed, ["stages", 0, "counts"], entries, signed=True)).problems
    assert problems[0].field == "stages[0].counts"


def test_what_readers_see() -> None:
    counts = SampleCounts(((3, 95), (7, 2)), other=3)
    assert (counts[3], counts[5], counts.total, counts.leading) == (95, 0, 100, 3)
    assert dict(counts) == {3: 95, 7: 2}
    assert 5 not in counts
    assert counts + SampleCounts(((5, 1), (7, 9))) == SampleCounts(((3, 95), (5, 1), (7, 11)), other=3)
    assert SampleCounts(((3, 5), (7, 5))).leading == 3
    assert SampleCounts(other=9).leading is None
    with pytest.raises(KeyError, match="other"):
        counts[-1]
