"""Boundaries with a price for several radii at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from smoothcert import optimal
from smoothcert.optimal import CurveOutcome
from smoothcert.procedures import Optimal
from smoothcert.sequential import looks_up_to, rounded_up
from tests.support.optimal import ALPHA, GOLDEN, NOISE, ever, make, sha256
from tests.support.paths import COUNTS, LOOKS, PATHS, weights


def curve(radii: Sequence[float], *, alpha: float = ALPHA, **parameters: int) -> optimal.CurveBoundaries:
    rule = Optimal(radii=tuple(radii), **parameters).boundaries(NOISE, 0.0, alpha=alpha, beta=0.5)
    assert isinstance(rule, optimal.CurveBoundaries)
    return rule


def outcome(rule: optimal.CurveBoundaries, p: float) -> CurveOutcome:
    found = rule.outcome(p)
    assert isinstance(found, CurveOutcome)
    return found


def test_alpha_is_not_divided_among_radii() -> None:
    """Mutant killed: alpha / 3 for each of three radii."""
    rule = curve((1.0, 2.0, 3.0))
    assert [sha256(rung.certify) for rung in rule.rungs] == [golden.certify for golden in GOLDEN[:3]]
    assert [sha256(rung.abandon) for rung in rule.rungs] == [golden.abandon for golden in GOLDEN[:3]]
    assert sha256(make(1.0, alpha=ALPHA / 3).certify) != GOLDEN[0].certify
    rows = [
        (0.9, (0.999999861, 9.2e-20, 0), 616.658599),
        (0.98, (1, 0.992825295, 0), 47984.143943),
        (0.9985, (1, 1, 0.000109170441), 19846.311918),
        (0.9995, (1, 1, 0.999766244), 22808.691657),
    ]
    for p, certified, samples in rows:
        found = outcome(rule, p)
        assert found.certified == pytest.approx(certified, rel=1e-2 if p == 0.9 else 1e-8, abs=1e-25)
        assert found.samples == pytest.approx(samples, abs=1e-5)
        assert found.certify == found.certified[0]
        assert found.radius == pytest.approx(sum(found.certified))  # the radii are 1 apart


def test_seven_radii_have_their_golden_boundaries() -> None:
    rule = curve([i / 2 for i in range(1, 8)])
    certify = [u for rung in rule.rungs for u in rung.certify.tolist()]
    abandon = [low for rung in rule.rungs for low in rung.abandon.tolist()]
    assert len(certify) == 483
    assert sha256(certify) == "7a76eb16dfd72e988be61e59fe3cd198281dd1246a79f08637f4b1cec38aaf82"
    assert sha256(abandon) == "28a3a59d9b9d5b1caf398df2200c367d435b8a758c9935e0160f97468e3f9471"
    near, far = outcome(rule, 0.7), outcome(rule, 0.9985)
    assert near.certified[:3] == pytest.approx((0.990757475, 1.38e-10, 0), rel=1e-2, abs=1e-20)
    assert near.certified[0] == pytest.approx(0.990757475, rel=1e-9)
    assert near.samples == pytest.approx(51519.682621, abs=1e-5)
    assert far.certified[4:] == pytest.approx((1, 0.000109184086, 3.9e-25), rel=2e-2, abs=1e-30)
    assert far.samples == pytest.approx(20460.298885, abs=1e-5)


def test_a_list_that_begins_with_0_pays_for_the_rival_class() -> None:
    rule = curve((0.0, 1.0))
    spent = [ever(rung, rounded_up(NOISE.probability(r))) for rung, r in zip(rule.rungs, (0.0, 1.0), strict=True)]
    assert spent == pytest.approx([0.000498803207, 0.000498327645], rel=1e-8)
    assert sha256(rule.rungs[1].certify) == "350e7750617411e2cdd3b3ba0d81095ef380e0e53f385ceec3fda210fce49fb3"
    found = outcome(rule, 0.85)
    assert found.certified == pytest.approx((1, 0.997344463), rel=1e-8)
    assert found.samples == pytest.approx(33693.194283, abs=1e-5)


def test_two_radii_with_a_chosen_class_have_their_golden_values() -> None:
    found = outcome(curve((1.0, 2.0), alpha=0.01, n0=100, max_samples=20_000, price=100_000), 0.98)
    assert found.certified == pytest.approx((1, 0.471402906), rel=1e-8)
    assert found.samples == pytest.approx(13512.794781, abs=1e-5)


def test_boundaries_rise_with_the_radius() -> None:
    """Mutant killed: boundaries that are not raised to those of the smaller radius."""
    radii = (1.0, 1.001, 1.002)
    rule, alone = curve(radii), [make(radius) for radius in radii]
    at = [looks_up_to(131_100).index(n) for n in (160, 192)]
    for rung, single in zip(rule.rungs[1:], alone[1:], strict=True):
        assert single.certify[at].tolist() == [151, 180]
        assert rung.certify[at].tolist() == [152, 181]
    for smaller, larger in itertools.pairwise(rule.rungs):
        assert (larger.certify >= smaller.certify).all()


def test_no_claim_about_several_radii_is_false_more_often_than_alpha() -> None:
    """All paths of three radii are checked at every p. Mutant killed: boundaries that do not rise must share alpha."""
    p0s = [NOISE.probability(radius) for radius in (0.0, 0.4, 0.9)]
    rungs = optimal.certify_curve(p0s, LOOKS, 0.2, leading=False)
    assert rungs == [[5, 7, 8], [5, 8, 10], [5, 9, 12]]
    proved = np.zeros(len(PATHS), int)
    for counts, *certify in zip(COUNTS.T, *rungs, strict=True):
        proved = np.maximum(proved, sum((counts >= u).astype(int) for u in certify))
    worst = 0.0
    for p in [*np.arange(0.3, 1, 0.01), *p0s]:
        true = sum(p0 < p for p0 in p0s)  # at p = p0 itself, this is the limit from below
        worst = max(worst, weights(float(p))[proved > true].sum())
    assert worst == pytest.approx(0.195801, abs=5e-7)
