"""A draw of an image that two workers count, the other one from the end of the draw on.

This worker counts from the front. It lends the last part of what is left to an idle worker, and once that has been
counted, the last part of what is left then, so the two meet however fast each of them is:

    front                      lent                tail
    |----- this worker ------->|== another one ===|== counted by others ==|
                               lent.start         end
"""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.engine import range as ranges
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.errors import CheckpointError
from store import shards

LENT = 0.4
"""The part of what is left of a draw that is lent. It is less than one half, so that a worker that is slower than this
one, by up to a third, is done before this one needs what it has counted."""


@dataclass(frozen=True)
class Lent:
    """The samples start, ..., stop - 1 of the draw under way of an image."""

    shard: str
    begins: Checkpoint
    """Where the other worker begins."""
    stop: int
    draws: int
    """The number of complete draws before the one under way."""

    @classmethod
    def of(cls, shard: str, case: Case) -> Lent | None:
        """The last part of what a run still has to draw before it ends or decides; None where that is little."""
        checkpoint, progress = case.handle.checkpoint, case.handle.progress
        # The two are published one after the other, and may not belong together.
        if checkpoint is None or progress.draws != len(checkpoint.draws) or case.handle.future.done():
            return None
        stop = checkpoint.samples - checkpoint.partial.total + progress.wanted
        left = stop - checkpoint.samples
        if left < shards.LEAST_RANGE:
            return None
        return cls(shard, ranges.tail_of(checkpoint, stop - int(LENT * left)), stop, progress.draws)

    @property
    def start(self) -> int:
        return self.begins.samples

    @property
    def offered(self) -> str:
        """The name of the range in the record, as `start-stop`."""
        return f"{self.start}-{self.stop}"

    def fits(self, checkpoint: Checkpoint) -> bool:
        """Whether a run with this checkpoint is still before the range, in the same draw."""
        return len(checkpoint.draws) == self.draws and checkpoint.samples < self.start

    def read(self, text: bytes | None) -> Checkpoint | None:
        """What has been counted, from what Redis has of the range; None while that is only where it begins.

        CheckpointError if Redis has nothing any more, or something else.
        """
        found, begins = ranges.read(text or b""), self.begins
        if (found.of, found.parts, found.draws[:1]) != (begins.of, begins.parts, begins.draws):
            raise CheckpointError(f"a range that does not begin at the sample {self.start} of this run")
        if len(found.draws) == 1:
            return None
        if found.samples != self.stop:
            raise CheckpointError(f"a range that ends at the sample {found.samples} instead of {self.stop}")
        return found


@dataclass
class SharedDraw:
    """The draw under way of an image, a part of which other workers count."""

    end: int
    """Where `tail` begins: what comes before is to be counted by this worker, or is lent."""
    draws: int
    """The number of complete draws before this one."""
    lent: Lent | None = None
    """What another worker counts now."""
    tail: Checkpoint | None = None
    """What others have counted, from `end` to the end of the draw."""
    front: Checkpoint | None = None
    """Everything up to where this worker last came to the end of its part."""

    def receive(self, counted: Checkpoint) -> None:
        """Take what the other worker has counted of the samples that it was lent."""
        self.end, self.lent = counted.draws[0].total, None
        self.tail = ranges.joined(ranges.reopened(counted), self.tail) if self.tail else counted

    def open_in(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is still within the draw.

        A run that has come to the end of its part states a complete draw of too few samples, which fits no run of the
        question.
        """
        return len(checkpoint.draws) <= self.draws

    @property
    def whole(self) -> Checkpoint | None:
        """The complete draw, once this worker has come to what others have counted."""
        if self.front is None or self.front.samples != self.end:
            return None
        return ranges.joined(self.front, self.tail) if self.tail else ranges.closed(self.front)
