"""One image under way: its handle for the submitter, its run for the engine."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from smoothcert.counts import SampleCounts
from smoothcert.engine.checkpoint import Checkpoint, Machine, Part, Shape, fingerprint
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import CheckpointError
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.sampling import NoisyImage, Streams
from smoothcert.errors import require_count
from smoothcert.noise import Noise
from smoothcert.procedures import Procedure
from smoothcert.verdict import Verdict

ClassCounts = npt.NDArray[np.int64]
Spans = tuple[tuple[int, int, int, int | None], ...]
"""The fields of a `Shape`, which is made only when the checkpoint is read."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come."""

    draws: int
    """Complete draws; the selection is the first."""
    samples: int
    """Samples counted, from the first on without a gap."""
    evaluations: int
    counts: SampleCounts
    """The samples of the draw under way."""
    wanted: int = 0
    """The samples that the draw under way is to have."""


@dataclass(frozen=True)
class Sampled:
    """The verdict on an image, and what it took."""

    verdict: Verdict
    evaluations: int
    shapes: tuple[Shape, ...]
    parts: tuple[Part, ...]
    ended_at: datetime = field(compare=False)


class Standing(NamedTuple):
    """Where a run stands. It is made after every batch and read seldom, so reading does the work."""

    of: str
    drawn: list[ClassCounts]
    """Of the complete draws, and of those that came later: it only grows, so nothing is copied."""
    draws: int
    """How many were complete."""
    counts: ClassCounts
    """Of the draw under way."""
    samples: int
    evaluations: int
    shapes: Spans
    parts: tuple[Part, ...]
    wanted: int
    """The samples that the draw under way is to have."""

    @property
    def progress(self) -> RunProgress:
        counts = SampleCounts.occurring(self.counts)
        return RunProgress(self.draws, self.samples, self.evaluations, counts, self.wanted)

    @property
    def checkpoint(self) -> Checkpoint:
        draws = tuple(map(SampleCounts.occurring, self.drawn[: self.draws]))
        partial = SampleCounts.occurring(self.counts)
        return Checkpoint(self.of, draws, partial, self.evaluations, _shapes(self.shapes), self.parts)


class Handle:
    """The submitter's view of a run."""

    def __init__(self) -> None:
        self._future: Future[Sampled] = Future()
        self._future.set_running_or_notify_cancel()  # it ends by `cancel` below, never by the future's own
        self.canceled = False
        self._standing: Standing | None = None

    def result(self, timeout: float | None = None) -> Sampled:
        """Wait for the end; raises the error that ended the run otherwise."""
        return self._future.result(timeout)

    @property
    def future(self) -> Future[Sampled]:
        """For callbacks, which run in the engine's own thread and must be short, and for waiting on many."""
        return self._future

    @property
    def progress(self) -> RunProgress:
        """As of the last batch."""
        return RunProgress(0, 0, 0, SampleCounts()) if self._standing is None else self._standing.progress

    @property
    def checkpoint(self) -> Checkpoint | None:
        """As of the last batch; None before the first."""
        return None if self._standing is None else self._standing.checkpoint

    def cancel(self) -> None:
        """End the run before the next batch."""
        self.canceled = True


@dataclass(eq=False, slots=True)
class Segment:
    """Consecutive samples of one run that went into one batch."""

    run: Run
    start: int
    stop: int
    counts: ClassCounts
    """Of the samples that are decided."""
    evaluations: int = 0
    rows: int = 0
    """The slice shape of the first members."""
    rest_rows: int | None = None
    """The slice shape of the other members; None before they ran."""
    undecided: int = 0
    """Samples that have no class yet, because a batch or further members have to come back."""

    def __len__(self) -> int:
        return self.stop - self.start

    def count(self, counts: ClassCounts, *, left: int, evaluations: int, rows: int, first: bool) -> None:
        """Add the classes that members decided, in slices of `rows`; `left` samples stay open."""
        self.counts = counts if first else self.counts + counts
        self.undecided = left if first else self.undecided - int(counts.sum())
        self.evaluations += evaluations
        if first:
            self.rows = rows
        else:
            self.rest_rows = rows


class Run:
    """The engine's view of one image: its procedure, its noise, and its counts.

    Three sample indices describe where it stands: `_begun` is the first sample of the draw under way, `_dispatched`
    the next sample to go into a batch, and `_counted` the first sample that is not counted yet. Always
    _begun <= _counted <= _dispatched <= _begun + _wanted.
    """

    def __init__(
        self,
        procedure: Procedure,
        pixels: Pixels,
        noise: Noise,
        seed: str,
        index: int,
        ensemble: Ensemble,
        streams: Streams = ((0, 0),),
        party: tuple[str, ...] = (),
    ) -> None:
        self.handle = Handle()
        self.party = party
        self.owner = party[0] if party else ""
        """The outermost of its parties; empty where it has none."""
        self.ended = False
        """Whether there is a verdict, or an error in its place."""
        self._procedure = procedure
        self._noisy = NoisyImage(noise, pixels.stored.to(ensemble.device), seed, index, streams)
        self._machine = Machine.of(ensemble)
        self._parts = tuple(Part(start, stream, self._machine) for start, stream in streams)
        self._of = fingerprint(pixels, noise, seed, index, ensemble)
        self._draws: list[ClassCounts] = []
        self._none: ClassCounts = np.zeros(len(ensemble.classes) + 1, np.int64)
        self._counts = self._none  # of the draw under way; arrays are replaced and never written
        self._evaluations = 0
        self._shapes: Spans = ()
        self._begun = self._dispatched = self._counted = 0
        self._segments: deque[Segment] = deque()
        self._wanted = 0
        self._drive(None)

    @property
    def wanted(self) -> int:
        """Samples that the procedure wants and that are in no batch yet."""
        return self._begun + self._wanted - self._dispatched

    def sample(self, out: Tensor, start: int) -> None:
        """Write the noisy images of the samples from `start` on into the rows of `out`."""
        self._noisy.sample(out, start)

    def take(self, count: int) -> Segment:
        """Dispatch the next `count` samples."""
        segment = Segment(self, self._dispatched, self._dispatched + count, self._none, undecided=count)
        self._dispatched += count
        self._segments.append(segment)
        return segment

    def settle(self) -> bool:
        """Count the complete segments, in order, and send the counts of a complete draw; True if more is wanted."""
        settled = False
        while self._segments and not self._segments[0].undecided:
            self._add(self._segments.popleft())
            settled = True
        complete = settled and self._counted == self._begun + self._wanted
        if complete:
            self._complete_draw()
        elif settled:
            self._publish()
        return complete and not self.ended

    def rewind(self) -> None:
        """Want all samples again that were dispatched and are not counted."""
        self._segments.clear()
        self._dispatched = self._counted

    def fail(self, error: BaseException) -> None:
        """End without a verdict."""
        if not self.ended:
            self.ended = True
            self.handle.future.set_exception(error)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where an earlier run of the same image and question stopped."""
        if checkpoint.of != self._of:
            raise CheckpointError(
                f"the checkpoint is of another certification, {checkpoint.of}; this one is {self._of}"
            )
        self._evaluations, self._shapes = checkpoint.evaluations, tuple(map(astuple, checkpoint.shapes))
        starts = [part.start for part in checkpoint.parts]
        if not (starts and starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] <= checkpoint.samples):
            raise CheckpointError(
                f"the parts of the checkpoint, which begin at {starts}, do not cover its {checkpoint.samples} samples"
            )
        self._parts = checkpoint.parts
        for draw in checkpoint.draws:
            self._put_back(draw, complete=True)
            self._complete_draw()
        if not self.ended:
            self._put_back(checkpoint.partial, complete=False)
            self._go_on_here()
            self._publish()

    def _go_on_here(self) -> None:
        """Begin a part of its own if another kind of machine drew the samples so far.

        Its noise is that of a further stream, unless every machine draws the same noise from the seed. The rest of the
        stream would not do: two machines may make different noise of the same random bits.
        """
        self._parts = tuple(part for part in self._parts if part.start < self._counted)  # one may have counted nothing
        if not self._parts:
            self._parts = (Part(0, 0, self._machine),)
        elif (last := self._parts[-1]).machine != self._machine:
            stream = last.stream if self._noisy.noise.portable else last.stream + 1
            self._parts = (*self._parts, Part(self._counted, stream, self._machine))
        self._noisy = replace(self._noisy, streams=tuple((part.start, part.stream) for part in self._parts))

    def _put_back(self, counts: SampleCounts, *, complete: bool) -> None:
        total = counts.total
        fits = total == self._wanted if complete else total < self._wanted
        classes = range(len(self._counts) - 1)
        if self.ended or not fits or any(each not in classes or count < 0 for each, count in counts.pairs):
            raise CheckpointError(
                f"the counts are {counts.written()}, where the procedure asks for {self._wanted} samples"
            )
        self._counts = counts.array(classes)
        self._dispatched = self._counted = self._begun + total

    def _add(self, segment: Segment) -> None:
        self._counts = self._counts + segment.counts
        self._counted = segment.stop
        self._evaluations += segment.evaluations
        # A segment of the same slice shapes extends the last entry; without undecided rows it fits any rest of them.
        start, rest = segment.start, segment.rest_rows
        before = self._shapes
        if before:
            began, _, rows, rest_rows = before[-1]
            if rows == segment.rows and (rest is None or rest_rows is None or rest == rest_rows):
                start, rest, before = began, rest or rest_rows, before[:-1]
        self._shapes = (*before, (start, segment.stop, segment.rows, rest))

    def _complete_draw(self) -> None:
        counts, self._counts = self._counts, self._none
        self._draws.append(counts)
        self._begun = self._counted
        self._drive(counts.copy())

    def _drive(self, counts: ClassCounts | None) -> None:
        """Send the procedure the counts it asked for (None at the start); it asks for more or ends."""
        self._wanted = 0
        try:
            wanted = next(self._procedure) if counts is None else self._procedure.send(counts)
            require_count("the samples that a procedure asks for", wanted)
            self._wanted = wanted
            self._publish()
        except StopIteration as end:
            self._publish()
            self.ended = True
            self.handle.future.set_result(self._sampled(end.value))
        except BaseException as error:  # whatever a procedure raises belongs to its own caller, even SystemExit
            self.fail(error)

    def _sampled(self, verdict: Verdict) -> Sampled:
        return Sampled(verdict, self._evaluations, _shapes(self._shapes), self._parts, datetime.now(UTC))

    def _publish(self) -> None:
        self.handle._standing = Standing(
            self._of,
            self._draws,
            len(self._draws),
            self._counts,
            self._counted,
            self._evaluations,
            self._shapes,
            self._parts,
            self._wanted,
        )


def _shapes(spans: Spans) -> tuple[Shape, ...]:
    return tuple(Shape(*span) for span in spans)
