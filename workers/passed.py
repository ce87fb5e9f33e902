"""The certifications that a worker leaves to others, because it does not hold their ensemble."""

from __future__ import annotations

import time
from collections.abc import Iterator

PASSED_S = 60.0
"""Seconds for which a certification is passed over; then it is looked at again, if it still waits."""


class Passed:
    """Certifications that were put back into the queue once; from then on looks at the queue pass over them."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def add(self, certification: str) -> None:
        self._until[certification] = time.monotonic() + PASSED_S

    def __iter__(self) -> Iterator[str]:
        now = time.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        return iter(self._until)
