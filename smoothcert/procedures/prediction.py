"""Predict (Cohen et al., Algorithm 1): the smoothed classifier's class, without a radius."""

from __future__ import annotations

from scipy.special import betainc

from smoothcert.errors import require_count, require_level
from smoothcert.procedures.protocol import Procedure, draw, no_class
from smoothcert.verdict import Verdict


def predict(*, n: int = 1000, alpha: float = 0.001) -> Procedure:
    """The class of the smoothed classifier, wrong with probability at most alpha, or an abstention."""
    require_count("n", n)
    require_level("alpha", alpha)
    return _predict(n, alpha)


def _predict(n: int, alpha: float) -> Procedure:
    counts = yield from draw(n)
    *classes, _ = counts
    ranked = sorted(range(len(classes)), key=lambda c: (-classes[c], c))
    first = classes[ranked[0]]
    second = classes[ranked[1]] if len(ranked) > 1 else 0
    if not first:
        return no_class(counts)
    if not two_sided_p_value(first, first + second) <= alpha:
        return Verdict(None, 0.0, None, n, "undecided", (), counts)
    return Verdict(ranked[0], 0.0, None, n, "predicted", (), counts)


def two_sided_p_value(count: int, n: int) -> float:
    """The p-value of the two-sided test that a coin is fair, for count >= n / 2 heads among n throws."""
    return min(1.0, 2.0 * float(betainc(count, n - count + 1, 0.5))) if count > 0 else 1.0
