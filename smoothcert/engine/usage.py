"""How much of a device each owner has had lately. The owner who has had least is served first.

Owners who want more than their part get equal parts in the long run. An owner who wants less than that hardly waits for
the others, because they have had more. An owner who comes new begins with as much on the account as the one who has had
most. Otherwise a flood that has just begun would come first, and its owner would gain by a pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

HALF_LIFE_S = 5.0
"""The seconds after which half of what an owner has had is forgotten: several certifications of a usual size."""
FORGOTTEN_S = 1e-6
"""An owner with less on the account than this is treated as new."""


class Usage:
    """The seconds of the device that each owner has had; they fade with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._most = 0.0
        self._at = clock()

    def of(self, owner: str) -> float:
        """What the owner has had, as of the last charge: only the order of owners matters, and it does not fade.

        An owner who comes new keeps the account with which it begins. If it followed the largest one, two busy owners
        would always have less than all others.
        """
        return self._seconds.setdefault(owner, self._most)

    def charge(self, shares: Mapping[str, int], seconds: float) -> None:
        """Divide these seconds of the device among owners, in proportion to their shares."""
        now = self._clock()
        kept = 0.5 ** ((now - self._at) / HALF_LIFE_S)
        total = sum(shares.values())
        had = {owner: kept * self.of(owner) for owner in (*self._seconds, *shares)}
        for owner, share in shares.items():
            had[owner] += seconds * share / total
        self._seconds = {owner: value for owner, value in had.items() if value > FORGOTTEN_S}
        self._most = max(self._seconds.values(), default=0.0)
        self._at = now
