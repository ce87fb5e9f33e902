"""Which members of a tape vote, and what the tape holds of their votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UNKNOWN = 255
"""Stands in the place of a class that has not been recorded yet; the largest value of a byte."""


@dataclass(frozen=True)
class TapeView:
    """Members of a tape that vote.

    Their full vote is in `row` of the tape; `members` of them make it, all among the first `depth` of the tape's. With
    consensus, the first `leading` of them decide where they agree.
    """

    row: int
    members: int
    depth: int
    leading: int | None

    @property
    def cheap(self) -> bool:
        """Whether some samples need not go through all members."""
        return self.leading is not None and self.leading < self.members

    @property
    def first(self) -> int:
        """The number of the tape's members that have to see every sample."""
        return self.leading if self.leading is not None and self.cheap else self.depth

    @property
    def turn(self) -> tuple[bool, int]:
        """A sort key for views. In this order no member runs twice on a sample, although logits are not kept."""
        return self.cheap, -self.depth


@dataclass(frozen=True)
class Votes:
    """The votes of a view on N samples.

    `classes` is uint8 [N] and may contain UNKNOWN; `decided` is bool [N] and tells where the first K members agreed.
    """

    view: TapeView
    classes: npt.NDArray[np.uint8]
    decided: npt.NDArray[np.bool_]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Where the tape has the vote, bool [N]."""
        return np.not_equal(self.classes, UNKNOWN, dtype=np.bool_)

    @property
    def undecided(self) -> int:
        """The number of samples that the other members had to see."""
        return len(self.classes) - int(self.decided.sum()) if self.view.cheap else 0

    @property
    def evaluations(self) -> int:
        """The forward passes that the samples cost: K for each where the first K agreed, and k for each elsewhere."""
        leading = self.view.members if self.view.leading is None else self.view.leading
        return leading * len(self.classes) + (self.view.members - leading) * self.undecided
