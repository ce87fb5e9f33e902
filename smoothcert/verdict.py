"""A procedure's answer, and the stages that led to it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Literal

StageOutcome = Literal["certified", "abandoned", "continued", "exhausted"]
StopReason = Literal["certified", "abandoned", "exhausted", "no-class", "predicted", "undecided"]


@dataclass(frozen=True)
class Stage:
    """One look at the counts and what came of it."""

    counts: tuple[int, ...]
    """Class counts of the samples drawn for this stage; the last entry is for no class."""
    n: int
    """The samples that the decision rests on: more than were drawn where a procedure keeps earlier ones."""
    count: int
    """How many of those n fell on the chosen class."""
    outcome: StageOutcome
    p_lower: float | None = None
    p_upper: float | None = None
    certify_at: int | None = None
    """It certifies at this count or more, where the procedure has integer boundaries."""
    abandon_at: int | None = None
    """It abandons at this count or less; -1 for never."""


@dataclass(frozen=True)
class Verdict:
    """What the samples prove; an abstention is an ordinary answer."""

    top_class: int | None
    """The class that is proved, or None for an abstention."""
    radius: float
    """Within this radius the smoothed classifier answers `top_class`; not rounded; 0 for an abstention."""
    p_lower: float | None
    """Holds as a lower bound on the probability of the chosen class; None where nothing was proved."""
    samples: int
    """All samples drawn, those of the selection included."""
    stop_reason: StopReason
    stages: tuple[Stage, ...]
    selection: tuple[int, ...]
    """Class counts of the samples that chose the class; none of them is used again."""


def floor_radius(radius: float) -> float:
    """The radius to six decimals, never more than was proved."""
    if radius >= 2**53:  # a whole number, with more digits than a Decimal keeps
        return radius
    return float(Decimal(repr(radius)).quantize(Decimal("1e-6"), ROUND_FLOOR))
