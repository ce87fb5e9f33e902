"""What an ensemble may be made of: its members, classes and weights, and the rules of its vote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from smoothcert.counts import MOST_CLASSES, MOST_NAME
from smoothcert.engine.errors import MemberError, VotingError
from smoothcert.engine.voting import WEIGHTED, rule

MAX_CLASSES = MOST_CLASSES
"""The most classes of an ensemble: the counts of every draw have one entry per class."""


def check_members(digests: Sequence[str]) -> None:
    """Raise MemberError unless there is at least one member and each occurs once."""
    if not digests:
        raise MemberError("an ensemble must have at least one member; got none")
    if places := repeated(digests):
        twice = " and ".join(map(str, places))
        raise MemberError(f"members {twice} are the same: they have the digest {digests[places[0] - 1]}")


def repeated(digests: Sequence[str]) -> tuple[int, ...]:
    """The places, from 1 on, of the first digest that occurs more than once; none where all differ."""
    for each in digests:
        places = tuple(place for place, other in enumerate(digests, 1) if other == each)
        if len(places) > 1:
            return places
    return ()


def check_classes(classes: Sequence[str]) -> None:
    """Raise MemberError unless there are 2 to MAX_CLASSES classes with different names that certificates can state."""
    if len(classes) > MAX_CLASSES:
        raise MemberError(f"there must be at most {MAX_CLASSES:,} classes; got {len(classes):,}")
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise MemberError(f"classes must be two or more different names; got {list(classes)}")
    if long := [place for place, name in enumerate(classes) if len(name) > MOST_NAME]:
        size = len(classes[long[0]])
        raise MemberError(f"the name of class {long[0]} has {size:,} characters; at most {MOST_NAME:,} are accepted")


def check_consensus(consensus: int | None, *, members: int) -> None:
    """Raise VotingError unless K is in 1..k, or None."""
    if consensus is not None and (type(consensus) is not int or not 1 <= consensus <= members):
        raise VotingError(f"consensus must be from 1 to {members}, the number of members, got {consensus!r}")


def check_weights(weights: Mapping[str, float] | None, digests: Sequence[str]) -> None:
    """Raise VotingError unless there is a weight for each member alone: finite, not negative, not all zero."""
    if weights is None:
        return
    strange, missing = sorted(set(weights) - set(digests)), sorted(set(digests) - set(weights))
    if strange or missing:
        raise VotingError(
            f"weights must be those of the members; not in the ensemble: {strange}, without a weight: {missing}"
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights.values()) or not any(weights.values()):
        raise VotingError(f"weights must be finite, not negative and not all zero: {dict(weights)}")


def check_voting(voting: str, weights: Mapping[str, float] | None) -> None:
    """Raise VotingError unless the rule is known and there are weights where it needs them."""
    rule(voting)
    if voting in WEIGHTED and weights is None:
        raise VotingError("weighted voting needs weights, and this ensemble has none; fit them with `models rank`")
