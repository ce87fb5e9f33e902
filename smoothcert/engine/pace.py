"""How fast an ensemble is evaluated, from which plans estimate how long a certification takes."""

from __future__ import annotations

from dataclasses import dataclass

KEPT = 0.9
"""The weight of all earlier batches against the newest one, if it is full: about ten full batches count."""


@dataclass
class Pace:
    """The rate of one ensemble, measured when it is loaded and over the batches that have ended since.

    Rows that only pad a slice count as well, because they take as long as the others.
    """

    rows: int
    """The rows of a slice: fewer samples at a time take as long as these."""
    evaluations: float = 0.0
    seconds: float = 0.0

    def see(self, evaluations: int, seconds: float, *, filled: float = 1.0) -> None:
        """Take in a batch, with its padding; it counts by the part of it that was `filled`.

        What is spent around a batch does not shrink with it, so a few small ones would make the ensemble look slow.
        """
        kept = KEPT**filled
        self.evaluations = kept * self.evaluations + filled * evaluations
        self.seconds = kept * self.seconds + filled * seconds

    @property
    def per_second(self) -> float | None:
        """Evaluations per second; None before the first batch."""
        return self.evaluations / self.seconds if self.evaluations and self.seconds else None
