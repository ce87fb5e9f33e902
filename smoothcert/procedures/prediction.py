"""Predict (Cohen et al., Algorithm 1): the smoothed classifier's class, without a radius."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import betainc

from smoothcert.boundaries import Boundaries
from smoothcert.errors import require_count, require_level
from smoothcert.noise import Noise
from smoothcert.procedures.one_look import OneLook
from smoothcert.procedures.parameters import WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, top_class
from smoothcert.verdict import Stage, Verdict

N = 1000
"""The number of samples of a prediction, by default."""


def predict(*, n: int = N, alpha: float = 0.001) -> Procedure:
    """The class of the smoothed classifier, wrong with probability at most alpha, or an abstention."""
    require_count("n", n)
    require_level("alpha", alpha)
    return _predict(n, alpha)


def _predict(n: int, alpha: float) -> Procedure:
    counts = yield from draw(n)
    c_a = top_class(counts)
    if c_a is None:
        return Verdict(None, 0.0, None, n, "no-class", (Stage(counts, n, 0, "exhausted"),), ())
    first = counts[c_a]
    second = max(count for c, count in enumerate(counts) if c != c_a)  # "no class" is a rival, too
    if not two_sided_p_value(first, first + second) <= alpha:
        return Verdict(None, 0.0, None, n, "undecided", (Stage(counts, n, first, "exhausted"),), ())
    return Verdict(c_a, 0.0, None, n, "predicted", (Stage(counts, n, first, "certified"),), ())


def two_sided_p_value(count: int, n: int) -> float:
    """The p-value of the two-sided test that a coin is fair, for count >= n / 2 heads among n throws."""
    return min(1.0, 2.0 * float(betainc(count, n - count + 1, 0.5))) if count > 0 else 1.0


class Predict(OneLook):
    """`predict` by name, with its parameters."""

    budget: ClassVar[str] = "n"
    predicts: ClassVar[bool] = True
    title: ClassVar[str] = "Predict"
    summary: ClassVar[str] = "Finds the class of the smoothed classifier at the image itself, and proves no radius."

    name: Literal["predict"] = "predict"
    n0: Annotated[int, Field(strict=True, ge=0, le=0)] = 0
    """There is no selection: the test allows for the class being chosen by the samples that it counts."""
    n: WholeNumber = N
    """The samples that have to tell the two most frequent classes apart."""

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses neither a target radius nor beta."""
        return predict(n=self.n, alpha=alpha)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The count that decides where all other samples fall on one rival, which is the hardest case."""
        half = (self.n + 1) // 2
        certify_at = half + bisect_left(
            range(half, self.n + 1), True, key=lambda count: two_sided_p_value(count, self.n) <= alpha
        )
        return Boundaries(np.array([self.n]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        return self.n

    def samples_needed(self, noise: Noise, radius: float, *, alpha: float) -> int | None:
        """The fewest samples that decide if all of them fall on one class; None for a radius, which is never proved."""
        return None if radius > 0 else math.ceil(1 - math.log2(alpha))

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        return 0.0
