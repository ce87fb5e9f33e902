"""Who votes on a tape, and what a tape says of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UNKNOWN = 255
"""In the place of a class: nobody has asked yet."""


@dataclass(frozen=True)
class View:
    """Members of a tape who vote.

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
        """How many of the tape's members have to see every sample."""
        return self.leading if self.leading is not None and self.cheap else self.depth

    @property
    def turn(self) -> tuple[bool, int]:
        """Sorts views so that none needs a sample of its predecessors again: logits are not kept."""
        return self.cheap, -self.depth


@dataclass(frozen=True)
class Heard:
    """What a view says of N samples: uint8 classes [N], UNKNOWN among them, and where its first K decided, bool [N]."""

    view: View
    classes: npt.NDArray[np.uint8]
    decided: npt.NDArray[np.bool_]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Where the tape has the answer."""
        return np.not_equal(self.classes, UNKNOWN, dtype=np.bool_)

    @property
    def undecided(self) -> int:
        """Samples that the other members had to see."""
        return len(self.classes) - int(self.decided.sum()) if self.view.cheap else 0

    @property
    def evaluations(self) -> int:
        """What the samples cost: K members each where these decided, and all of them elsewhere."""
        leading = self.view.members if self.view.leading is None else self.view.leading
        return leading * len(self.classes) + (self.view.members - leading) * self.undecided
