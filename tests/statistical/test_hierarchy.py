"""`hierarchy` keeps alpha over its levels: exactly, over all outcomes of the samples that could mislead it most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from smoothcert.counts import MOST_CLASSES
from smoothcert.noise import Gaussian
from smoothcert.procedures import Procedure, Superclass, certify_hierarchy, hierarchy, run

ALPHA = 0.1
N = 200
EDGE = 0.5
"""The probability of each set that is chosen: at the edge of being provable, so every claim is false."""
LEVELS = ((Superclass(name="b", classes=(1, 2)),),)
"""The levels: class 0 is alone, and the classes 1 and 2 together are as likely as it is."""
SELECTION = (40, 30, 30, 0)
"""Counts that choose class 0 on the finest level and {1, 2} on the other one; these sets cannot both be unlucky."""

Start = Callable[..., Procedure]


def false_claims(start: Start = certify_hierarchy) -> float:
    """P(some claim): the sum over all counts of the class 0, which has probability EDGE."""
    total = 0.0
    for count in range(N + 1):
        rest = N - count
        coming = iter([SELECTION, (count, rest // 2, rest - rest // 2, 0)])
        verdict = run(
            start(Gaussian(1.0), LEVELS, n0=sum(SELECTION), n=N, alpha=ALPHA),
            lambda _, coming=coming: np.array(next(coming)),  # type: ignore[misc]
        )
        total += float(stats.binom.pmf(count, N, EDGE)) * (verdict.top_class is not None)
    return total


def test_the_levels_share_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: alpha on every level instead of alpha / L."""
    assert 0.5 * ALPHA < false_claims() <= ALPHA
    original = hierarchy._certify_hierarchy
    monkeypatch.setattr(
        hierarchy, "_certify_hierarchy", lambda *given: original(*given[:-1], given[-1] * (1 + len(LEVELS)))
    )
    assert ALPHA < false_claims() < 2 * ALPHA


CUTS = tuple(
    tuple(
        Superclass(name=f"{mask} {side}", classes=tuple(c for c in range(8) if (c & mask).bit_count() % 2 == side))
        for side in range(2)
    )
    for mask in range(1, 8)
)
"""Seven ways to cut eight classes into halves; any two of them are independent."""
RUNS = 2000


def unlucky_halves() -> int:
    """The number of RUNS that prove a half of equally likely classes, which has probability one half."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(RUNS):
        started = hierarchy.certify_hierarchy(Gaussian(1.0), CUTS, n0=N, n=N, alpha=ALPHA)
        verdict = run(started, lambda n: rng.multinomial(n, [1 / 8] * 8 + [0.0]))
        wrong += (verdict.top_class or 0) >= MOST_CLASSES
    return wrong


def test_the_sets_are_chosen_by_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant killed: the samples that bound the probabilities also choose the sets."""
    most, original = int(stats.binom.ppf(1 - 1e-6, RUNS, ALPHA)), hierarchy._certify_hierarchy
    assert 0 < unlucky_halves() <= most

    def peeking(*given: Any) -> Procedure:
        inner = original(*given)
        next(inner)
        counts = yield N
        inner.send(counts)
        try:
            inner.send(counts)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError

    monkeypatch.setattr(hierarchy, "_certify_hierarchy", peeking)
    assert unlucky_halves() > most
