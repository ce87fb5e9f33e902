"""How much of a device each owner has had lately. The owner who has had least is served first.

Owners who want more than their part get equal parts in the long run. An owner who wants less than that hardly waits for
the others, because they have had more. An owner who comes new, or back after a pause, begins with as much on the
account as the one who has had most. Otherwise a flood that has just begun would have the device alone, until its owner
has had as much as those who were there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

HALF_LIFE_S = 5.0
"""The seconds after which half of what an owner has had is forgotten: several certifications of a usual size."""
PAUSE_S = 4 * HALF_LIFE_S
"""The seconds without any part of the device after which an owner is treated as new. How little is left on the account
does not tell a pause, because an owner who asks for little never has much on it."""


class Usage:
    """The seconds of the device that each owner has had; they fade with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._served_at: dict[str, float] = {}  # or when it came, before it is served for the first time
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
        self._served_at = {
            owner: at
            for owner in had
            if now - (at := now if owner in shares else self._served_at.get(owner, now)) <= PAUSE_S
        }
        self._seconds = {owner: had[owner] for owner in self._served_at}
        self._most = max(self._seconds.values(), default=0.0)
        self._at = now
