"""One image under way: what its submitter sees of it, and what the engine does with it."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
from torch import Tensor

from models.ensemble import Ensemble
from smoothcert.errors import require_count, require_positive
from smoothcert.procedures import Procedure
from smoothcert.verdict import Verdict
from workers.checkpoint import Checkpoint, Shape, fingerprint
from workers.errors import CheckpointError
from workers.pixels import check_image
from workers.sampling import NoiseStream

Counts = npt.NDArray[np.int64]
UNDECIDED = -1


@dataclass(frozen=True)
class Progress:
    """How far an image has come."""

    draws: int
    """Draws that are complete: the selection is the first."""
    samples: int
    """Samples counted, from the first on without a gap."""
    evaluations: int
    counts: tuple[int, ...]
    """Class counts of the draw under way."""


@dataclass(frozen=True)
class Sampled:
    """What the engine has to say of an image that has ended."""

    verdict: Verdict
    evaluations: int
    shapes: tuple[Shape, ...]
    ended_at: datetime = field(compare=False)


class Handle:
    """One image, seen by whoever submitted it."""

    def __init__(self) -> None:
        self._future: Future[Sampled] = Future()
        self._future.set_running_or_notify_cancel()  # it ends by `cancel` below, never by the future's own
        self._canceled = threading.Event()
        self._checkpoint: Checkpoint | None = None
        self._progress = Progress(0, 0, 0, ())

    def result(self, timeout: float | None = None) -> Sampled:
        """Wait for the end; raises what ended it otherwise."""
        return self._future.result(timeout)

    @property
    def future(self) -> Future[Sampled]:
        """For callbacks, which run in the engine's own thread and must be short, and for waiting on many."""
        return self._future

    @property
    def progress(self) -> Progress:
        """As of the last batch."""
        return self._progress

    @property
    def checkpoint(self) -> Checkpoint | None:
        """As of the last batch; None before the first."""
        return self._checkpoint

    def cancel(self) -> None:
        """End it before the next batch."""
        self._canceled.set()

    @property
    def canceled(self) -> bool:
        """Whether somebody asked for its end."""
        return self._canceled.is_set()


@dataclass(eq=False)
class Segment:
    """Consecutive samples of one image that went into one batch."""

    run: Run
    start: int
    stop: int
    counts: Counts
    evaluations: int = 0
    rows: int = 0
    rest_rows: int | None = None
    undecided: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    def evaluated(self, members: int, samples: int) -> None:
        """So many members have seen so many of the samples."""
        self.evaluations += members * samples

    def count(self, classes: npt.NDArray[np.int64]) -> None:
        """Add samples by class; those still undecided are waited for."""
        decided = classes[classes != UNDECIDED]
        self.undecided += len(classes) - len(decided)
        self.counts += np.bincount(decided, minlength=len(self.counts))


class Run:
    """One image, seen by the engine."""

    def __init__(
        self, procedure: Procedure, image: Tensor, sigma: float, seed: str, index: int, ensemble: Ensemble
    ) -> None:
        require_positive("sigma", sigma)
        pixels = check_image(image, ensemble.input_shape)
        self.handle = Handle()
        self._procedure, self._sigma = procedure, sigma
        self._pixels = pixels.to(ensemble.device)
        self._stream = NoiseStream(seed, index, ensemble.input_shape, ensemble.device)
        self._of = fingerprint(pixels, sigma, seed, index, ensemble)
        self._draws: list[tuple[int, ...]] = []
        self._counts: Counts = np.zeros(len(ensemble.classes) + 1, np.int64)  # of the draw under way
        self._evaluations = 0
        self._shapes: list[Shape] = []
        # sample indices: where the draw under way began, the next to dispatch, the first not yet counted
        self._begun = self._dispatched = self._counted = 0
        self._segments: deque[Segment] = deque()
        self._wanted = 0
        self._drive(None)

    @property
    def wish(self) -> int:
        """Samples that are wanted and in no batch yet."""
        return self._begun + self._wanted - self._dispatched

    @property
    def ended(self) -> bool:
        """Whether there is a verdict, or an error in its place."""
        return self.handle.future.done()

    def perturb(self, out: Tensor, start: int) -> None:
        """Write the noisy images of the samples from `start` on into the rows of `out`."""
        self._stream.perturb(out, self._pixels, self._sigma, start)

    def take(self, count: int) -> Segment:
        """The next `count` samples, on their way into a batch."""
        segment = Segment(self, self._dispatched, self._dispatched + count, np.zeros_like(self._counts))
        self._dispatched += count
        self._segments.append(segment)
        return segment

    def settle(self) -> bool:
        """Count the segments that are complete, in order; when the draw is, send its counts. True for a new wish."""
        settled = False
        while self._segments and not self._segments[0].undecided:
            self._add(self._segments.popleft())
            settled = True
        complete = settled and self._counted == self._begun + self._wanted
        if complete:
            self._complete_draw()
        elif settled:
            self._publish()
        return complete

    def rewind(self) -> None:
        """What is in a batch and not counted yet is wanted again."""
        self._segments.clear()
        self._dispatched = self._counted

    def fail(self, error: BaseException) -> None:
        """End without a verdict."""
        if not self.ended:
            self.handle.future.set_exception(error)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where an earlier run of the same image and question stopped."""
        if checkpoint.of != self._of:
            raise CheckpointError(f"a checkpoint of another certification: {checkpoint.of}, this one is {self._of}")
        self._evaluations, self._shapes = checkpoint.evaluations, list(checkpoint.shapes)
        for draw in checkpoint.draws:
            self._put_back(draw, complete=True)
            self._complete_draw()
        if not self.ended:
            self._put_back(checkpoint.partial, complete=False)
            self._publish()

    def _put_back(self, counts: tuple[int, ...], *, complete: bool) -> None:
        total = sum(counts)
        fits = total == self._wanted if complete else total < self._wanted
        if self.ended or len(counts) != len(self._counts) or min(counts) < 0 or not fits:
            raise CheckpointError(f"counts {list(counts)} where the procedure asks for {self._wanted} samples")
        self._counts[:] = counts
        self._dispatched = self._counted = self._begun + total

    def _add(self, segment: Segment) -> None:
        self._counts += segment.counts
        self._counted = segment.stop
        self._evaluations += segment.evaluations
        start, shape = segment.start, (segment.rows, segment.rest_rows)
        if self._shapes and _joins(self._shapes[-1], segment):
            last = self._shapes.pop()
            start, shape = last.start, (segment.rows, segment.rest_rows or last.rest_rows)
        self._shapes.append(Shape(start, segment.stop, *shape))

    def _complete_draw(self) -> None:
        counts, self._counts = self._counts, np.zeros_like(self._counts)
        self._draws.append(tuple(counts.tolist()))
        self._begun = self._counted
        self._drive(counts)

    def _drive(self, counts: Counts | None) -> None:
        """Give the procedure what it asked for (None at the start); it asks for more or ends."""
        self._wanted = 0
        try:
            wanted = next(self._procedure) if counts is None else self._procedure.send(counts)
            require_count("the samples that a procedure asks for", wanted)
            self._wanted = wanted
            self._publish()
        except StopIteration as end:
            self._publish()
            self.handle.future.set_result(Sampled(end.value, self._evaluations, tuple(self._shapes), datetime.now(UTC)))
        except BaseException as error:  # whatever a procedure raises belongs to its own caller, be it SystemExit
            self.fail(error)

    def _publish(self) -> None:
        partial = tuple(self._counts.tolist())
        self.handle._progress = Progress(len(self._draws), self._counted, self._evaluations, partial)
        self.handle._checkpoint = Checkpoint(
            self._of, tuple(self._draws), partial, self._evaluations, tuple(self._shapes)
        )


def _joins(shape: Shape, segment: Segment) -> bool:
    """Whether a segment was evaluated in the shapes of the samples before it; without undecided rows it fits any."""
    rest = {shape.rest_rows, segment.rest_rows} - {None}
    return shape.rows == segment.rows and len(rest) <= 1
