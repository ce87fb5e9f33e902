"""What the samples of an abstention still prove: a smaller radius, as a claim of its own.

The lower ends of the intervals at all looks hold together with probability 1 - alpha, where other samples chose the
class: each has the share alpha / looks (Bonferroni), and the sizes of the looks are fixed in advance. Where no
samples chose the class (n0 = 0), it is the one that leads at the look, and each look has half of its share. With
class A the most probable, a claim beyond one half is false if the bound of A exceeds p_A, or if another class leads
and its bound exceeds one half; if p_A > 1/2 each of the two has at most that half. If p_A <= 1/2, the tail of a
binomial is convex below the bound, so the classes together exceed one half at most as often as two classes with p =
1/2 do, which is twice that half.

The question itself has spent alpha already. So a reader who takes the certificate, or else what remains, is
wrong with probability 2 alpha at most, and that is what is stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict

from smoothcert.bounds import lower_bound
from smoothcert.counts import SampleCounts
from smoothcert.noise import Noise
from smoothcert.verdict import floor_radius

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smoothcert.certificate import Certificate
    from smoothcert.question import Question


@dataclass(frozen=True)
class Remainder:
    """What is sound to claim after an abstention."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    radius: float
    """The largest radius that the samples still prove, rounded down to six decimals; 0 if they prove none."""
    class_index: int | None
    """The class for which it is proved; if nothing is proved, the class that was counted."""
    alpha: float
    """The chance that the certificate or this claim is false: alpha of the question, twice."""
    attempt: float | None
    """A smaller radius to ask for, which another run is likely to prove if these samples prove any; null if the counts
    speak against all, or if the procedure is not asked for a radius."""


def remainder(certificate: Certificate) -> Remainder | None:
    """What the samples of an abstention still prove; None for a certificate, and where nothing is left to chance."""
    if certificate.decision == "certified" or certificate.alpha is None or certificate.procedure.exhaustive:
        return None
    question = certificate.question
    share = question.procedure.interval_alpha(question.alpha) / (1 if question.procedure.n0 else 2)
    best, of_class, last = 0.0, None, 0.0
    for leader, n, count in _looks(certificate):
        bound = lower_bound(count, n, share)
        if of_class is None or bound > best:
            best, of_class = bound, leader
        last = count / n
    attempt = _attempt(question, best, last) if question.procedure.targeted else 0.0
    return Remainder(_radius(question.noise, best), of_class, 2 * question.alpha, attempt or None)


def _attempt(question: Question, best: float, last: float) -> float:
    """What the last look of another run proves if p_A is no larger than shown, rounded down to what one would type.

    What these samples prove would fail in many of the other runs, since their counts are as often smaller. Where
    nothing was shown, it is half of the radius that the last count would have.
    """
    procedure, noise = question.procedure, question.noise
    n = procedure.last_look
    repeated = lower_bound(math.floor(best * n), n, procedure.last_alpha(question.alpha))
    return _rounded(noise, _radius(noise, repeated) or _radius(noise, last) / 2)


def _looks(certificate: Certificate) -> Iterator[tuple[int, int, int]]:
    """For each look: the class that is counted, the samples that the look rests on, and those of the class."""
    chosen, drawn = certificate.selection.leading, SampleCounts()
    for stage in certificate.stages:
        drawn = drawn + stage.counts if certificate.procedure.pooled else stage.counts
        leader = drawn.leading if chosen is None else chosen
        if leader is not None and drawn.total:
            yield leader, drawn.total, drawn[leader]


def _rounded(noise: Noise, radius: float) -> float:
    """The radius rounded down to what one would type: two digits, or a whole number."""
    if noise.whole or radius <= 0:
        return float(math.floor(radius))
    unit = 10.0 ** (math.floor(math.log10(radius)) - 1)
    return round(math.floor(radius / unit) * unit, 6)


def _radius(noise: Noise, p: float) -> float:
    return floor_radius(max(0.0, noise.radius(p))) if p > 0.5 else 0.0
