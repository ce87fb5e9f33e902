"""The answer of a procedure, and the stages that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Literal

StageOutcome = Literal["certified", "abandoned", "continued", "exhausted"]
StopReason = Literal["certified", "abandoned", "exhausted", "no-class", "predicted", "undecided"]


@dataclass(frozen=True)
class Stage:
    """One look at the counts and its outcome."""

    counts: Sequence[int]
    """The class counts of the samples drawn for this stage; the last entry counts samples without a class."""
    n: int
    """The samples that the decision rests on: more than were drawn if the procedure keeps earlier ones."""
    count: int
    """How many of those n fell on the chosen class."""
    outcome: StageOutcome
    p_lower: float | None = None
    p_upper: float | None = None
    certify_at: int | None = None
    """The stage certifies at this count or more, if the procedure has integer boundaries."""
    abandon_at: int | None = None
    """The stage abandons at this count or less; -1 for never."""


@dataclass(frozen=True)
class Verdict:
    """What the samples prove. An abstention is an ordinary answer."""

    top_class: int | None
    """The class that is proved, or None for an abstention."""
    radius: float
    """The radius within which the smoothed classifier answers `top_class`; not rounded; 0 for an abstention."""
    p_lower: float | None
    """The lower bound on the probability of the chosen class; None if nothing was proved."""
    samples: int
    """The number of samples drawn, those of the selection included."""
    stop_reason: StopReason
    stages: tuple[Stage, ...]
    selection: Sequence[int]
    """The class counts of the samples that chose the class; these samples are not used again."""


def floor_radius(radius: float) -> float:
    """The radius rounded down to six decimals: never more than was proved."""
    if radius >= 2**53:  # a whole number, and quantize would need more digits than a Decimal has
        return radius
    return float(Decimal(repr(radius)).quantize(Decimal("1e-6"), ROUND_FLOOR))
