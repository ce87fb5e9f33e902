"""The guarantees, sampled: real runs of the procedures with the truth at the edge of the claim.

Each test names the mutant that it kills and runs it, too: the mutant must break what the procedure keeps. Everything is
seeded, so a failure means that the code has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy import stats

from smoothcert.bounds import lower_bound
from smoothcert.noise import Gaussian
from smoothcert.optimal import curve
from smoothcert.procedures import (
    Procedure,
    certify,
    certify_adaptive,
    certify_largest,
    certify_optimal,
    certify_sequential,
    predict,
    run,
)
from smoothcert.procedures.optimal import _certify_optimal
from smoothcert.procedures.protocol import draw
from smoothcert.sequential import Abandon, boundaries
from smoothcert.verdict import Verdict

NOISE = Gaussian(1.0)
RADIUS = 1.0
EDGE = NOISE.probability(RADIUS) - 1e-6  # RADIUS needs a little more, so every certificate is false
ALPHA = 0.05
RUNS = 4_000
FEW = 1_500
STAGES = (100, 400, 1_600, 6_400)


def verdicts(start: Callable[[], Procedure], probabilities: list[float], runs: int = RUNS) -> list[Verdict]:
    """Many independent runs on a classifier with these class probabilities."""
    rng = np.random.default_rng(2022)
    return [run(start(), lambda n: rng.multinomial(n, [*probabilities, 0.0])) for _ in range(runs)]


def false_certificates(start: Callable[[], Procedure], runs: int = RUNS) -> int:
    found = verdicts(start, [EDGE, 1 - EDGE], runs)
    return sum(verdict.top_class is not None and verdict.radius >= RADIUS for verdict in found)


def most(level: float, runs: int = RUNS) -> int:
    """The most events that are plausible at this level: more would happen once in a million."""
    return int(stats.binom.ppf(1 - 1e-6, runs, level))


def least(level: float, runs: int = RUNS) -> int:
    return int(stats.binom.ppf(1e-6, runs, level))


@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
def test_adaptive_keeps_alpha_over_all_its_stages(kept: bool) -> None:
    """Mutant killed: alpha in every stage instead of alpha / s."""

    def start(alpha: float) -> Procedure:
        return certify_adaptive(NOISE, RADIUS, stages=STAGES, alpha=alpha, beta=0.05, keep_samples=kept)

    assert false_certificates(lambda: start(ALPHA)) <= most(ALPHA)
    assert false_certificates(lambda: start(ALPHA * len(STAGES))) > most(ALPHA)


@pytest.mark.parametrize("abandon", ["strict", "lost-certificate"])
def test_sequential_keeps_alpha_over_all_its_looks(abandon: Abandon) -> None:
    """Mutant killed: peeking, that is, comparing with the boundary also between looks."""

    def start() -> Procedure:
        return certify_sequential(NOISE, RADIUS, max_samples=800, alpha=ALPHA, beta=0.05, abandon=abandon)

    assert false_certificates(start) <= most(ALPHA)
    assert false_certificates(peeking, runs=1_000) > most(ALPHA, 1_000)


def peeking() -> Procedure:
    """The mutant: it compares the count with the boundary's rate after every four samples."""
    p0 = NOISE.probability(RADIUS)
    design = boundaries(p0, alpha=ALPHA, beta=0.05, max_samples=800, abandon="strict")
    selection = yield from draw(100)
    count = 0
    for n in range(4, 801, 4):
        counts = yield from draw(4)
        count += counts[0]
        look = int(np.searchsorted(design.looks, n))
        if count >= design.certify[look] / design.looks[look] * n:
            return Verdict(0, RADIUS, p0, 100 + n, "certified", (), selection)
    return Verdict(None, 0.0, None, 900, "exhausted", (), selection)


def test_a_leader_is_falsely_certified_at_most_alpha() -> None:
    """Mutant killed: boundaries that do not pay for the rival class, so that either of two equals may be certified."""

    def certified(start: Callable[[], Procedure]) -> int:
        return sum(verdict.top_class is not None for verdict in verdicts(start, [0.5, 0.5], FEW))

    def mutant() -> Procedure:
        unpaid = curve((0.5,), alpha=ALPHA, price=10**9, max_samples=128, leading=False)
        return _certify_optimal((0.0,), (0.5,), 0, unpaid)

    assert certified(lambda: certify_optimal(NOISE, 0.0, max_samples=128, price=10**9, alpha=ALPHA)) <= most(ALPHA, FEW)
    assert certified(mutant) > most(ALPHA, FEW)


def test_no_radius_of_several_is_falsely_certified_more_than_alpha() -> None:
    """Mutant killed: three times the level. p_A lies just below what the second of three radii needs."""

    def false(alpha: float) -> int:
        start = partial(certify_optimal, NOISE, (0.5, 1.0, 1.2), max_samples=300, price=10**9, alpha=alpha)
        return sum(verdict.radius >= RADIUS for verdict in verdicts(start, [EDGE, 1 - EDGE], FEW))

    assert false(ALPHA) <= most(ALPHA, FEW)
    assert false(3 * ALPHA) > most(ALPHA, FEW)


def test_largest_claims_too_much_at_most_alpha() -> None:
    """Mutant killed: three times the level."""
    p = NOISE.probability(RADIUS)

    def over_claims(alpha: float) -> int:
        start = partial(certify_largest, NOISE, max_samples=300, price=5_000, alpha=alpha)
        return sum(verdict.radius > RADIUS for verdict in verdicts(start, [p, 1 - p], FEW))

    assert over_claims(ALPHA) <= most(ALPHA, FEW)
    assert over_claims(3 * ALPHA) > most(ALPHA, FEW)


def test_certify_spends_all_of_alpha_and_no_more() -> None:
    """Mutants killed: a two-sided bound, which spends alpha / 2, and a bound at 2 * alpha.

    A two-sided bound is sound but gives radius away, so the test looks from below as well.
    """
    p = NOISE.probability(RADIUS)

    def over_claims(alpha: float) -> int:
        found = verdicts(lambda: certify(NOISE, n=50_000, alpha=alpha), [p, 1 - p])
        return sum(verdict.radius > RADIUS for verdict in found)

    assert least(ALPHA) <= over_claims(ALPHA) <= most(ALPHA)
    assert over_claims(ALPHA / 2) < least(ALPHA)
    assert over_claims(ALPHA * 2) > most(ALPHA)


def test_certify_chooses_its_class_on_other_samples() -> None:
    """Mutant killed: choosing the class on the samples that bound it. With two classes at 1/2 nothing is robust."""

    def mutant() -> Procedure:
        counts = yield from draw(1_000)
        c_a = int(np.argmax(counts[:-1]))
        p_lower = lower_bound(counts[c_a], 1_000, ALPHA)
        return Verdict(c_a if p_lower > 0.5 else None, 0.0, p_lower, 1_000, "certified", (), counts)

    def answers(start: Callable[[], Procedure]) -> int:
        return sum(verdict.top_class is not None for verdict in verdicts(start, [0.5, 0.5]))

    assert answers(lambda: certify(NOISE, n=1_000, alpha=ALPHA)) <= most(ALPHA)
    assert answers(mutant) > most(ALPHA)


def test_predict_errs_at_most_alpha() -> None:
    """Mutant killed: a one-sided test of the two top classes, which errs twice as often."""
    found = verdicts(lambda: predict(n=1_000, alpha=ALPHA), [0.4995, 0.5005])
    assert sum(verdict.top_class == 0 for verdict in found) <= most(ALPHA / 2)
    mutant = verdicts(lambda: predict(n=1_000, alpha=2 * ALPHA), [0.5, 0.5])
    assert sum(verdict.top_class is not None for verdict in mutant) > most(ALPHA)


@pytest.mark.parametrize(
    "start",
    [
        lambda beta: certify_adaptive(NOISE, RADIUS, stages=STAGES, alpha=ALPHA, beta=beta),
        lambda beta: certify_sequential(NOISE, RADIUS, max_samples=2_000, alpha=ALPHA, beta=beta, abandon="strict"),
    ],
    ids=["adaptive", "strict"],
)
def test_a_provable_radius_is_abandoned_at_most_beta(start: Callable[[float], Procedure]) -> None:
    """Mutant killed: beta in every stage instead of beta / (s - 1), that is, a beta several times as large."""
    p0 = NOISE.probability(RADIUS)

    def abandoned(beta: float) -> int:
        found = verdicts(lambda: start(beta), [p0, 1 - p0])
        return sum(verdict.stop_reason == "abandoned" for verdict in found)

    assert abandoned(0.05) <= most(0.05)
    assert abandoned(0.15) > most(0.05)
