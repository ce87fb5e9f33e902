"""An image of which another worker draws the second half of what is left of a draw."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.engine import range as ranges
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Checkpoint
from store import shards


@dataclass
class Half:
    """The samples start, ..., stop - 1 of an image are with another worker."""

    shard: str
    start: int
    stop: int
    draws: int
    """The number of complete draws before the one under way."""
    front: Checkpoint | None = None
    """Everything up to `start`, once this worker has counted it."""
    tail: Checkpoint | None = None
    """What the other worker has counted, once it has."""
    lost: bool = False
    """Whether the other worker gave up, or what it counted cannot be used."""

    @classmethod
    def of(cls, shard: str, case: Case) -> Half | None:
        """Half of what an image still has to draw before it decides again; None where that is little."""
        checkpoint, progress = case.handle.checkpoint, case.handle.progress
        # The two are published one after the other, and may not belong together.
        if checkpoint is None or progress.draws != len(checkpoint.draws) or case.handle.future.done():
            return None
        stop = checkpoint.samples - checkpoint.partial.total + progress.wanted
        left = stop - checkpoint.samples
        if left < shards.LEAST_RANGE:
            return None
        return cls(shard, checkpoint.samples + left // 2, stop, progress.draws)

    @property
    def offered(self) -> str:
        """The name of the range in the record, as `start-stop`."""
        return f"{self.start}-{self.stop}"

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Whether a run with this checkpoint is still before the range, in the same draw."""
        return len(checkpoint.draws) == self.draws and checkpoint.samples < self.start

    def beyond(self, checkpoint: Checkpoint | None) -> bool:
        """Whether a run with this checkpoint has completed the draw by itself."""
        return checkpoint is not None and len(checkpoint.draws) > self.draws

    @property
    def whole(self) -> Checkpoint | None:
        """The complete draw, once both have counted their part."""
        return ranges.joined(self.front, self.tail) if self.front and self.tail else None
