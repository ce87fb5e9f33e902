"""How fast an ensemble is evaluated, from which plans estimate how long a certification takes."""

from __future__ import annotations

from dataclasses import dataclass

KEPT = 0.9
"""The weight of all earlier batches against the newest one: about ten batches count."""


@dataclass
class Pace:
    """The rate of one ensemble, measured when it is loaded and over the batches that have ended since.

    Rows that only pad a slice count as well, because they take as long as the others.
    """

    rows: int
    """The rows of a slice: fewer samples at a time take as long as these."""
    evaluations: float = 0.0
    seconds: float = 0.0

    def see(self, evaluations: int, seconds: float) -> None:
        """Take in a batch, with its padding."""
        self.evaluations = KEPT * self.evaluations + evaluations
        self.seconds = KEPT * self.seconds + seconds

    @property
    def per_second(self) -> float | None:
        """Evaluations per second; None before the first batch."""
        return self.evaluations / self.seconds if self.evaluations and self.seconds else None
