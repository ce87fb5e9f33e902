"""The figures of the paper, computed from certificates for which they are known."""

from __future__ import annotations

import pytest

from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError
from smoothcert.evaluation import (
    Judged,
    average_certified_radius,
    certified_accuracy,
    consensus_rate,
    disagreements,
    proved_radius,
    sample_reduction,
    stage_shares,
)
from smoothcert.procedures import Adaptive, Fixed, Sequential
from tests.support.certificates import certificate_of


def judged(*certificates: Certificate, label: int = 1) -> list[Judged]:
    return [Judged(certificate, label) for certificate in certificates]


FIXED = certificate_of(Fixed(n=1000), 0.97)
ABSTAINED = certificate_of(Adaptive(), 0.5)
ADAPTIVE = certificate_of(Adaptive(), 0.9)
SEQUENTIAL = certificate_of(Sequential(), 0.9)


def test_a_radius_is_what_was_proved_before_rounding() -> None:
    assert FIXED.p_lower is not None
    assert proved_radius(FIXED) == FIXED.noise.radius(FIXED.p_lower) > FIXED.radius
    assert proved_radius(SEQUENTIAL) == 0.25
    assert proved_radius(ABSTAINED) == 0.0


def test_the_average_is_over_all_images() -> None:
    """Mutant killed: averaging over the certified images only."""
    everything = [*judged(FIXED, SEQUENTIAL, ABSTAINED), *judged(FIXED, label=2)]
    assert average_certified_radius(everything) == pytest.approx((proved_radius(FIXED) + 0.25) / 4)


def test_certified_accuracy_needs_the_right_class_and_the_radius() -> None:
    everything = [*judged(FIXED, SEQUENTIAL, ABSTAINED), *judged(FIXED, label=2)]
    assert certified_accuracy(everything, 0.0) == 50
    assert certified_accuracy(everything, 0.25) == 50
    assert certified_accuracy(everything, 0.2501) == 25
    assert certified_accuracy(everything, proved_radius(FIXED)) == 25
    assert certified_accuracy(everything, 10.0) == 0


def test_stage_shares_say_where_images_were_decided() -> None:
    shares = stage_shares(judged(ADAPTIVE, ADAPTIVE, ABSTAINED, ABSTAINED))
    stages = len(ADAPTIVE.stages)
    assert shares[stages - 1].certified == 50
    assert sum(share.returned for share in shares) == 100
    assert shares[len(ABSTAINED.stages) - 1].abandoned == 50


def test_the_sample_reduction_is_against_certify() -> None:
    assert sample_reduction(judged(ADAPTIVE, ADAPTIVE)) == pytest.approx(100_100 / ADAPTIVE.samples)


def test_without_provenance_there_is_no_consensus_rate() -> None:
    assert consensus_rate(judged(ADAPTIVE)) is None


def test_disagreements_are_counted_image_by_image() -> None:
    assert disagreements(judged(ADAPTIVE, SEQUENTIAL), judged(ABSTAINED, SEQUENTIAL), 0.25) == 1
    assert disagreements(judged(ADAPTIVE), judged(SEQUENTIAL), 0.25) == 0
    with pytest.raises(DomainError, match="not about the same images"):
        disagreements(judged(ADAPTIVE), judged(ADAPTIVE, ADAPTIVE), 0.25)


def test_nothing_has_no_average() -> None:
    with pytest.raises(DomainError, match="no certificates"):
        average_certified_radius([])
