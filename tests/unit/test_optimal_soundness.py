"""Boundaries with a price keep alpha: by recursion, by every path of a tiny test, and against mutants that do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import betaln

from smoothcert import optimal
from smoothcert.binomial import NOTHING_DRAWN
from smoothcert.boundaries import Boundaries, Outcome
from smoothcert.bounds import lower_bound
from smoothcert.optimal import leader_outcome
from smoothcert.sequential import SLACK, certify_boundary, certify_shares, rounded_up, steps_of
from tests.support.optimal import ALPHA, NOISE, ever, make
from tests.support.paths import LOOKS, PATHS, stops, weights


def binding(p0: float, looks: list[int], abandon: Sequence[int], alpha: float) -> list[int]:
    """In the mutant, abandoned paths leave the recursion, and their alpha is spent on others."""
    alive, spent, boundary = NOTHING_DRAWN, 0.0, []
    shares = certify_shares(p0, looks, alpha, optimal.END_SHARE)
    for step, share, low in zip(steps_of(looks), shares, abandon, strict=True):
        at_look = alive.plus(step, p0)
        u = at_look.least_upper(alpha * share - spent)
        spent += at_look.upper_tail(u)
        alive = at_look.below(u).above(low)
        boundary.append(u)
    return boundary


def test_alpha_holds_where_the_abandon_rule_is_ignored() -> None:
    """Mutants killed: a binding fit, and a certify boundary that is one too small."""
    rule, p0 = make(1.0), NOISE.probability(1.0)
    never = np.full(len(rule.looks), -1)
    assert ever(rule, p0) <= ALPHA
    mutant = binding(rounded_up(p0), rule.looks.tolist(), rule.abandon.tolist(), ALPHA * (1 - SLACK))
    assert Boundaries(rule.looks, np.array(mutant), never).outcome(p0).certify == pytest.approx(0.00105, abs=5e-6)
    smaller = Boundaries(rule.looks, rule.certify - 1, never)
    assert smaller.outcome(p0).certify == pytest.approx(0.0055, abs=5e-5)


@pytest.mark.parametrize(("ratio", "error"), [(1.0, 0.00117), (3.0, 0.00119)])
def test_a_binding_fit_errs_more_where_more_is_given_up(ratio: float, error: float) -> None:
    """This is the mutant at a lower price, with both boundaries fitted to each other."""
    price, p0 = 300_000, rounded_up(NOISE.probability(ratio))
    rule = make(ratio, price=price)
    assert ever(rule, p0) <= ALPHA
    looks, abandon = rule.looks.tolist(), rule.abandon.tolist()
    for _ in range(3):
        mutant = binding(p0, looks, abandon, ALPHA * (1 - SLACK))
        abandon, _ = optimal.abandon_boundary(p0, looks, mutant, price)
    never = np.full(len(looks), -1)
    assert Boundaries(rule.looks, np.array(mutant), never).outcome(p0).certify == pytest.approx(error, abs=5e-6)


def test_the_leader_is_falsely_certified_at_most_alpha() -> None:
    """Mutant killed: the leader rule without rho, which errs almost twice as often at radius 0."""

    def false(rule: Boundaries) -> float:
        """P(a class is certified) for two classes of one half, both of which lack the radius."""
        without = Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1))
        return 2 * leader_outcome(without, 0.5).certify

    assert false(make(0.0)) <= ALPHA
    mutant = make(0.0, n0=100)
    assert false(mutant) > 1.99 * ALPHA
    assert 2 * ever(mutant, 0.5) == pytest.approx(0.0019955, abs=5e-8)  # both may be certified here


def test_a_bound_at_the_stopping_look_would_overclaim() -> None:
    """In the mutant, p_lower is the bound of Clopper and Pearson at the look where the run stopped, instead of p0."""
    rule, p = make(1.0), 0.8441
    alive, false = NOTHING_DRAWN, 0.0
    for n, step, u in zip(rule.looks.tolist(), rule.steps.tolist(), rule.certify.tolist(), strict=True):
        at_look = alive.plus(step, p)
        overclaims = [k for k in range(u, min(n, u + 400) + 1) if lower_bound(k, n, ALPHA) > p]
        false += at_look.upper_tail(overclaims[0]) if overclaims else 0.0
        alive = at_look.below(u)
    assert false == pytest.approx(0.0048, abs=1e-4)


def test_decisions_between_the_looks_would_spend_more() -> None:
    """The mutant decides after every 32 samples, with the boundary drawn through those of the looks."""
    rule, p0 = make(1.0), NOISE.probability(1.0)
    few = rule.looks <= 4_096
    n = np.arange(32, rule.looks[few][-1] + 1, 32)
    peeking = np.ceil(np.interp(n, rule.looks, rule.certify)).astype(int)
    never = np.full(len(n), -1)
    ours = Boundaries(rule.looks[few], rule.certify[few], never[: few.sum()]).outcome(p0).certify
    assert ours == pytest.approx(0.00042, abs=5e-6)
    assert Boundaries(n, peeking, never).outcome(p0).certify == pytest.approx(0.00050, abs=5e-6)


# --- every path of a tiny test

TINY = [
    (0.6, 0.05, 60, [5, 8, 11], [2, 6, -1], 0.028406, 9.008904),
    (0.5, 0.2, 25, [5, 7, 8], [1, 4, -1], 0.195801, 3.423306),
    (0.8, 0.3, 90, [5, 9, 11], [2, 6, -1], 0.274878, 15.151470),
    (0.7, 0.1, 500, [5, 9, 11], [2, 6, -1], 0.085025, 115.713935),
]


@pytest.mark.parametrize(("p0", "alpha", "price", "certify", "abandon", "spent", "worth"), TINY)
def test_every_path_of_a_tiny_test_agrees(
    p0: float, alpha: float, price: int, certify: list[int], abandon: list[int], spent: float, worth: float
) -> None:
    found = certify_boundary(p0, LOOKS, alpha, end_share=optimal.END_SHARE)
    low, value = optimal.abandon_boundary(p0, LOOKS, found.counts, price)
    assert (found.counts, low) == (certify, abandon)
    assert found.spent == pytest.approx(spent, abs=5e-7)
    assert value == pytest.approx(worth, abs=5e-7)
    rule = Boundaries(np.array(LOOKS), np.array(certify), np.array(low))
    crossed, _, _ = stops(certify, [-1, -1, -1])
    assert found.spent == pytest.approx(weights(p0)[crossed].sum(), abs=1e-12)
    certified, abandoned, samples = stops(certify, low)
    for p in (0.3, p0, 0.9, 1.0):
        expected = Outcome(weights(p)[certified].sum(), weights(p)[abandoned].sum(), weights(p) @ samples)
        outcome = rule.outcome(p)
        for name in ("certify", "abandon", "samples"):
            assert getattr(outcome, name) == pytest.approx(getattr(expected, name), abs=1e-12)
    # No other abandon boundary does better under Jeffreys' prior, and the induction knows its value.
    successes = PATHS.sum(axis=1)
    jeffreys = np.exp(betaln(successes + 0.5, 12 - successes + 0.5)) / math.pi

    def loss(first: int, second: int) -> float:
        certified, _, samples = stops(certify, [first, second, -1])
        return float(jeffreys @ samples - price * jeffreys[certified].sum())

    losses = {(a, b): loss(a, b) for a in range(-1, certify[0]) for b in range(-1, certify[1])}
    assert min(losses.values()) == pytest.approx(losses[low[0], low[1]], abs=1e-12)
    assert -value == pytest.approx(min(losses.values()), abs=1e-12)


DRAWS = [each for each in itertools.product(range(5), repeat=3) if sum(each) == 4]
"""The counts of three classes among four samples."""


@pytest.mark.parametrize(
    ("p0", "alpha", "spent", "worst", "bound"),
    [
        (0.5, 0.2, 0.195801, 0.391602, 0.391602),
        (0.52, 0.2, 0.105799, 0.169906, 0.172571),
        (0.55, 0.05, 0.044164, 0.052700, 0.053860),
        (0.6, 0.05, 0.028406, 0.029262, 0.029514),
        (0.8, 0.3, 0.274878, 0.274878, 0.274895),
    ],
)
def test_no_three_classes_are_falsely_certified_more_often_than_the_proof_allows(
    p0: float, alpha: float, spent: float, worst: float, bound: float
) -> None:
    found = certify_boundary(p0, LOOKS, alpha, end_share=optimal.END_SHARE)
    rho = optimal.rival_share(p0, LOOKS, found.counts)
    # These are all 3^12 paths; those with the same counts at the looks are taken together.
    factorial = np.array([1, 1, 2, 6, 24])
    ways = 24 // factorial[np.array(DRAWS)].prod(axis=1)
    certified: dict[tuple[int, ...], dict[int, int]] = {}
    for blocks in itertools.product(range(len(DRAWS)), repeat=3):
        totals = np.cumsum([DRAWS[b] for b in blocks], axis=0)
        for total, u in zip(totals.tolist(), found.counts, strict=True):
            leader = total.index(max(total))
            if total[leader] >= u:
                of = certified.setdefault(tuple(totals[-1].tolist()), {})
                of[leader] = of.get(leader, 0) + int(ways[list(blocks)].prod())
                break

    def false(p: np.ndarray) -> float:
        """P(a class of probability at most p0 is certified); at p0 itself it is the limit from below."""
        return sum(
            float((p ** np.array(counts)).prod()) * sum(n for c, n in of.items() if p[c] <= p0 * (1 + 1e-12))
            for counts, of in certified.items()
        )

    grid = [0.0, 0.1, 0.2, (1 - p0) / 2, 1 - p0, 0.45, p0]
    points = [np.array([a, b, 1 - a - b]) for a in grid for b in grid if -1e-12 < 1 - a - b <= p0 * (1 + 1e-12)]
    errors = [false(point.clip(0)) for point in points]
    assert found.spent == pytest.approx(spent, abs=5e-7)
    assert found.spent * (1 + rho) == pytest.approx(bound, abs=5e-7)
    assert max(errors) == pytest.approx(worst, abs=5e-7)
    assert max(errors) <= found.spent * (1 + rho) * (1 + 1e-12)


def test_random_settings_keep_alpha_and_their_shape() -> None:
    rng = np.random.default_rng(17)
    for _ in range(150):
        n = int(np.exp(rng.uniform(np.log(2), np.log(60_000))))
        alpha, price = float(10 ** rng.uniform(-20, -0.6)), int(10 ** rng.uniform(1.7, 9))
        ratio, n0 = float(rng.uniform(0, 3)), int(rng.integers(0, 2))
        rule = make(ratio, alpha=alpha, max_samples=n, price=price, n0=n0)
        dearer = make(ratio, alpha=alpha, max_samples=n, price=2 * price, n0=n0)
        p0 = rounded_up(NOISE.probability(ratio))
        rival = 0.0 if n0 else ever(rule, 1 - p0)
        assert ever(rule, p0) + rival <= alpha
        assert (rule.abandon < rule.certify).all()
        can = rule.certify <= rule.looks
        assert ((rule.certify - p0 * rule.looks)[can] >= 1 - p0).all(), "M' of the proof is at least 1"
        assert (dearer.abandon <= rule.abandon).all(), "a higher price never gives up earlier"
        assert (dearer.certify == rule.certify).all(), "the price has no part in soundness"
