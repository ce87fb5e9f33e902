"""Transfers keep their guarantee: sampled at the edge of the claim, and in the engine on known classifiers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.successor import Successor
from smoothcert.evaluation import proved_radius
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Transfer, certify_transferred, run, transfer
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.statistical.test_known_answer import SHAPE, HalfSpace

ALPHA = 0.05
RUNS = 2000
OLD_N, N = 200_000, 2_000
P_OLD = 0.9
ZETAS = (0.0, 0.001, 0.02, 0.2)


def most(runs: int, level: float = ALPHA) -> int:
    return int(stats.binom.ppf(1 - 1e-6, runs, level))


def false_claims(zeta: float, joint: bool = True, combination: str = "union") -> int:
    """The number of RUNS with a false claim if every disagreement costs the class: P(new = c) = P_OLD - zeta."""
    rng, p_new, wrong = np.random.default_rng(7), P_OLD - zeta, 0
    shares = [1 - P_OLD, p_new, zeta] if joint else [1 - p_new, p_new, 0.0]
    for _ in range(RUNS):
        count = int(rng.binomial(OLD_N, P_OLD))
        procedure = certify_transferred(
            Gaussian(0.25), 1, old_count=count, old_n=OLD_N, n=N, joint=joint, alpha=ALPHA, combination=combination
        )
        verdict = run(procedure, lambda n: rng.multinomial(n, shares))
        wrong += verdict.top_class is not None and verdict.p_lower is not None and verdict.p_lower > p_new
    return wrong


@pytest.mark.parametrize("zeta", ZETAS)
def test_a_joint_transfer_keeps_alpha(zeta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: the disagreement that was seen instead of a bound on it."""
    assert false_claims(zeta) <= most(RUNS)
    if zeta:
        monkeypatch.setattr(transfer, "upper_bound", lambda count, n, _: count / n)
        assert false_claims(zeta) > most(RUNS)


@pytest.mark.parametrize("zeta", ZETAS)
def test_a_transfer_by_the_product_keeps_alpha(zeta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: the share that was lost instead of a bound on it."""
    assert false_claims(zeta, combination="product") <= most(RUNS)
    if zeta:
        bound = transfer.lower_bound
        monkeypatch.setattr(
            transfer, "lower_difference", lambda x, n, lost, m, alpha: max(0.0, bound(x, n, alpha) - lost / m)
        )
        assert false_claims(zeta, combination="product") > most(RUNS)


def test_a_direct_transfer_keeps_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: half of the confidence, as if the old bound had taken the other half in the wrong direction."""
    assert 0 < false_claims(0.02, joint=False) <= most(RUNS)
    bound = transfer.lower_bound
    monkeypatch.setattr(transfer, "lower_bound", lambda count, n, alpha: bound(count, n, 2 * alpha))
    assert false_claims(0.02, joint=False) > most(RUNS)


# --- the engine, on half-spaces: a smoothed one is robust up to its distance, and not beyond

NOISE = Gaussian(0.25)
BEFORE, AFTER = 0.45, 0.3
"""The distances of the images from the planes of the old and the new classifier."""
IMAGES = 24


def half_space(distance: float) -> Ensemble:
    network = HalfSpace(torch.ones(16), distance - 0.5 * 4).eval()  # |w| = 1, and all values are 0.5
    return assemble([network], classes=["far", "near"], input_shape=SHAPE, name=f"at {distance}", batch=256)


@pytest.fixture(scope="module")
def old() -> list[Certificate]:
    with Engine(half_space(BEFORE)) as engine:
        images = torch.full((IMAGES, *SHAPE), 0.5)
        return certify(engine, images, Question(NOISE, Fixed(n=4000), alpha=ALPHA), seed="old")


def transferred(old: list[Certificate], new: Ensemble, beside: Ensemble) -> list[Certificate]:
    with Engine(new) as engine:
        cases = [
            start(
                engine,
                torch.full(SHAPE, 0.5),
                Question(NOISE, Transfer.of(each, 400), alpha=ALPHA),
                seed="new",
                index=index,
                ensemble=Successor.of(new, beside, top_class=each.class_index),
            )
            for index, each in enumerate(old)
        ]
        return [case.result() for case in cases]


def test_no_certificate_reaches_beyond_the_new_plane(old: list[Certificate]) -> None:
    """Mutant killed: the new ensemble beside itself, which never disagrees."""
    new = half_space(AFTER)
    found = transferred(old, new, half_space(BEFORE))
    assert all(verify(each) for each in found)
    assert {each.class_index for each in found} == {1}
    assert sum(proved_radius(each) > AFTER for each in found) <= most(IMAGES)
    mutant = transferred(old, new, new)
    assert sum(proved_radius(each) > AFTER for each in mutant) > most(IMAGES)


def test_both_run_on_common_noise(old: list[Certificate]) -> None:
    """With independent noise they would disagree five times as often. Parallel planes disagree only between them."""
    found = transferred(old, half_space(AFTER), half_space(BEFORE))
    disagreed = sum(each.stages[0].counts.other for each in found)
    between = float(stats.norm.cdf(BEFORE / 0.25) - stats.norm.cdf(AFTER / 0.25))
    n = 400 * IMAGES
    assert stats.binom.ppf(1e-6, n, between) <= disagreed <= stats.binom.ppf(1 - 1e-6, n, between)
