"""The engine: drives many procedures at once and packs what they ask for into full batches.

One thread owns the device. Each step fills one batch of a fixed shape with the oldest wishes, runs the first K members
on it, gathers the rows without consensus across batches until they fill a batch of their own, runs the other members on
those, and sends complete counts back to their procedures. No Python loop over samples; only class indices leave the
device.

The class of a sample depends on (ensemble, image, sigma, seed, index) alone. So counts, and with them verdicts, are
the same for every packing, order, interruption and resume.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.ensemble import Ensemble
from smoothcert.errors import require_positive
from smoothcert.procedures import Procedure
from smoothcert.verdict import Verdict
from workers.errors import CanceledError, CheckpointError, ClosedError, ImageError
from workers.sampling import NoiseStream

logger = logging.getLogger(__name__)

Counts = npt.NDArray[np.int64]
UNDECIDED = -1
Result = TypeVar("Result")


@dataclass(frozen=True)
class Shape:
    """The samples start, ..., stop - 1 went through the network in slices of `rows`."""

    start: int
    stop: int
    rows: int


@dataclass(frozen=True)
class Progress:
    """How far a certification has come."""

    draws: int
    """Draws that are complete: the selection is the first."""
    samples: int
    """Samples counted, from the first on without a gap."""
    evaluations: int
    counts: tuple[int, ...]
    """Class counts of the draw under way."""


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to go on elsewhere: the counts of complete draws, and how far the one under way has come."""

    seed: str
    image: int
    draws: tuple[tuple[int, ...], ...]
    partial: tuple[int, ...]
    evaluations: int
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Sampled:
    """What the engine has to say of a certification that has ended."""

    verdict: Verdict
    evaluations: int
    shapes: tuple[Shape, ...]


@dataclass
class Statistics:
    """How well the batches were filled."""

    batches: int = 0
    rows: int = 0
    capacity: int = 0
    rest_batches: int = 0
    rest_rows: int = 0

    @property
    def fill(self) -> float:
        """The mean share of a batch that held samples."""
        return self.rows / self.capacity if self.capacity else 0.0


class Handle:
    """One certification, seen by whoever submitted it."""

    def __init__(self) -> None:
        self._future: Future[Sampled] = Future()
        self._canceled = threading.Event()
        self._checkpoint: Checkpoint | None = None
        self._progress = Progress(0, 0, 0, ())

    def result(self, timeout: float | None = None) -> Sampled:
        """Wait for the end; raises what ended it otherwise."""
        return self._future.result(timeout)

    @property
    def future(self) -> Future[Sampled]:
        """For callbacks and for waiting on many."""
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
class _Segment:
    """Consecutive samples of one certification that went into one batch."""

    run: _Run
    start: int
    stop: int
    counts: Counts
    evaluations: int = 0
    rows: int = 0
    undecided: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    def evaluated(self, members: int, samples: int, rows: int) -> None:
        """So many members have seen so many of the samples, in slices of `rows`."""
        self.evaluations += members * samples
        self.rows = rows

    def count(self, classes: npt.NDArray[np.int64]) -> None:
        """Add samples by class; those still undecided are waited for."""
        decided = classes[classes != UNDECIDED]
        self.undecided += len(classes) - len(decided)
        self.counts += np.bincount(decided, minlength=len(self.counts))


class _Run:
    """One certification, seen by the engine."""

    def __init__(self, procedure: Procedure, pixels: Tensor, sigma: float, stream: NoiseStream, classes: int) -> None:
        self.handle = Handle()
        self.procedure, self.pixels, self.sigma, self.stream = procedure, pixels, sigma, stream
        self.draws: list[tuple[int, ...]] = []
        self.counts: Counts = np.zeros(classes + 1, np.int64)  # of the draw under way
        self.evaluations = 0
        self.shapes: list[Shape] = []
        # sample indices: where the draw under way began, the next to dispatch, the first not yet counted
        self.begun = self.dispatched = self.counted = 0
        self.segments: deque[_Segment] = deque()
        self.wanted = next(procedure)

    @property
    def wish(self) -> int:
        """Samples that are wanted and in no batch yet."""
        return self.begun + self.wanted - self.dispatched

    @property
    def ended(self) -> bool:
        """Whether there is a verdict, or an error in its place."""
        return self.handle.future.done()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where another run stopped."""
        if (checkpoint.seed, checkpoint.image) != (self.stream.seed, self.stream.image):
            raise CheckpointError(f"checkpoint of seed {checkpoint.seed!r}, image {checkpoint.image}, not of this one")
        if any(len(counts) != len(self.counts) for counts in (*checkpoint.draws, checkpoint.partial)):
            raise CheckpointError(f"checkpoint with counts of other classes than {len(self.counts) - 1}")
        self.evaluations, self.shapes = checkpoint.evaluations, list(checkpoint.shapes)
        for draw in checkpoint.draws:
            self.counts[:] = draw
            self.begun = self.dispatched = self.counted = self.begun + sum(draw)
            self.send()
        if not self.ended:
            self.counts[:] = checkpoint.partial
            self.dispatched = self.counted = self.begun + sum(checkpoint.partial)
        self.publish()

    def take(self, count: int) -> _Segment:
        """The next `count` samples, on their way into a batch."""
        segment = _Segment(self, self.dispatched, self.dispatched + count, np.zeros_like(self.counts))
        self.dispatched += count
        self.segments.append(segment)
        return segment

    def settle(self) -> bool:
        """Count the segments that are complete, in order; when the draw is, send its counts. True for a new wish."""
        settled = 0
        while self.segments and not self.segments[0].undecided:
            segment = self.segments.popleft()
            self.counts += segment.counts
            self.counted = segment.stop
            self.evaluations += segment.evaluations
            self._note_shape(segment)
            settled += 1
        complete = bool(settled) and self.counted == self.begun + self.wanted
        if complete:
            self.begun = self.counted
            self.send()
        if settled:
            self.publish()
        return complete

    def send(self) -> None:
        """Give the procedure the counts it asked for; it asks for more or ends."""
        counts, self.counts = self.counts, np.zeros_like(self.counts)
        self.draws.append(tuple(counts.tolist()))
        try:
            self.wanted = self.procedure.send(counts)
        except StopIteration as end:
            self.wanted = 0
            self.handle.future.set_result(Sampled(end.value, self.evaluations, tuple(self.shapes)))
        except Exception as error:  # whatever a procedure raises belongs to its own caller
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End without a verdict."""
        if not self.ended:
            self.handle.future.set_exception(error)

    def publish(self) -> None:
        """Let the handle see how far it is."""
        partial = tuple(self.counts.tolist())
        self.handle._progress = Progress(len(self.draws), self.counted, self.evaluations, partial)
        self.handle._checkpoint = Checkpoint(
            self.stream.seed, self.stream.image, tuple(self.draws), partial, self.evaluations, tuple(self.shapes)
        )

    def _note_shape(self, segment: _Segment) -> None:
        start, stop, rows = segment.start, segment.stop, segment.rows
        if self.shapes and self.shapes[-1].rows == rows:
            start = self.shapes.pop().start
        self.shapes.append(Shape(start, stop, rows))


class _Lane:
    """The certifications that share one ensemble, voting rule and K, and so share batches."""

    def __init__(self, ensemble: Ensemble, batch: int) -> None:
        fits = ensemble.members[0].form.shape[0] <= batch
        self.ensemble = ensemble if fits else ensemble.resized(batch)
        self.batch = batch
        self.live: dict[_Run, None] = {}  # in the order of arrival
        self.wishes: deque[_Run] = deque()  # those that want samples, the one served longest ago first
        self.buffer = torch.empty((batch, *ensemble.input_shape), device=ensemble.device)
        self.waiting: deque[tuple[_Segment, int]] = deque()  # rows without consensus: whose, and how many
        self.waiting_images: list[Tensor] = []
        self.waiting_outputs: list[Tensor] = []

    @property
    def rows(self) -> int:
        """The rows that go through a network at once: every count is made in slices of this shape."""
        return self.ensemble.members[0].form.shape[0]

    def shrink(self, reason: BaseException) -> None:
        """Go on with batches of half the size, or less, after the device ran out of memory."""
        while self.batch > 1:
            self.batch = self.batch // 2
            logger.warning("%s: out of memory, batches of %d from here: %s", self.ensemble.name, self.batch, reason)
            if self.ensemble.device.type == "cuda":
                torch.cuda.empty_cache()
            try:
                self.ensemble = self.ensemble.resized(self.batch)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                continue
            self.buffer = self.buffer[: self.batch].clone()
            return
        raise reason


class Engine:
    """Draws the samples of many procedures on one device; use it as a context manager, from any thread."""

    def __init__(self, ensemble: Ensemble, *, batch: int = 256) -> None:
        self.ensemble, self.batch = ensemble, batch
        self.statistics = Statistics()
        self.last_step = time.monotonic()
        """When a batch last ended, for whoever watches that the device moves."""
        self._lanes: dict[tuple[object, ...], _Lane] = {}
        self._turns: deque[_Lane] = deque()
        self._arrived: list[tuple[_Run, Ensemble]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._own, name=f"engine-{ensemble.device}", daemon=True)
        self._thread.start()

    def submit(
        self,
        procedure: Procedure,
        image: Tensor,
        sigma: float,
        seed: str,
        *,
        index: int = 0,
        ensemble: Ensemble | None = None,
        resume: Checkpoint | None = None,
    ) -> Handle:
        """Run a procedure on an image [C, H, W] in [0, 1]; `seed` and `index` determine all of its noise.

        `ensemble` may be another view (voting, K) or another ensemble on the same device. Bad input raises here.
        """
        chosen = ensemble or self.ensemble
        require_positive("sigma", sigma)
        pixels = check_image(image, chosen.input_shape).to(chosen.device)
        run = _Run(
            procedure,
            pixels,
            sigma,
            NoiseStream(seed, index, chosen.input_shape, chosen.device),
            classes=len(chosen.classes),
        )
        if resume is not None:
            run.resume(resume)
        with self._changed:
            if self._closed:
                raise ClosedError("the engine is closed")
            self._arrived.append((run, chosen))
            self._changed.notify()
        return run.handle

    def close(self) -> None:
        """End every certification that is under way, and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- everything below runs in the owner thread

    def _own(self) -> None:
        while self._absorb():
            if not self._turns:
                continue
            lane = self._turns[0]
            self._turns.rotate(-1)
            try:
                self._step(lane)
            except Exception as error:  # the device or a network failed: these certifications end, the others go on
                logger.exception("a batch of %s failed", lane.ensemble.name)
                self._end(lane, error)
            self.last_step = time.monotonic()
            if not lane.live:
                self._turns.remove(lane)
        for lane in self._lanes.values():
            self._end(lane, ClosedError("the engine was closed"))

    def _absorb(self) -> bool:
        """Take in what arrived, waiting for it if there is nothing else to do; False once the engine is closed."""
        with self._changed:
            while not (self._closed or self._arrived or self._turns):
                self._changed.wait()
            arrived, self._arrived = self._arrived, []
            closed = self._closed
        for run, ensemble in arrived:
            if not run.ended:
                lane = self._lane(ensemble)
                lane.live[run] = None
                lane.wishes.append(run)
                if lane not in self._turns:
                    self._turns.append(lane)
        return not closed

    def _lane(self, ensemble: Ensemble) -> _Lane:
        key = (ensemble.digest, ensemble.voting, ensemble.consensus, ensemble.precision, len(ensemble.members))
        if key not in self._lanes:
            self._lanes[key] = _Lane(ensemble, self.batch)
        return self._lanes[key]

    def _end(self, lane: _Lane, error: Exception) -> None:
        for run in lane.live:
            run.fail(error)
        for kept in (lane.live, lane.wishes, lane.waiting, lane.waiting_images, lane.waiting_outputs):
            kept.clear()

    def _step(self, lane: _Lane) -> None:
        """One batch: of the oldest wishes or, where everybody waits for the other members, of the rows that wait."""
        self._drop_canceled(lane)
        segments = self._fill(lane)
        if segments:
            self._run_first(lane, segments)
        self._run_rest(lane, all_of_them=not lane.wishes)
        for run in list(lane.live):
            if run.settle() and not run.ended:
                lane.wishes.append(run)
            if run.ended:
                del lane.live[run]

    def _drop_canceled(self, lane: _Lane) -> None:
        canceled = [run for run in lane.live if run.handle.canceled]
        for run in canceled:
            run.fail(CanceledError("the certification was canceled"))
            del lane.live[run]
            if run in lane.wishes:
                lane.wishes.remove(run)

    def _fill(self, lane: _Lane) -> list[_Segment]:
        """Samples for one batch; whoever wants more than fits waits for its next turn behind the others."""
        segments: list[_Segment] = []
        space = lane.batch
        while space and lane.wishes:
            run = lane.wishes.popleft()
            segment = run.take(min(space, run.wish))
            segments.append(segment)
            space -= len(segment)
            if run.wish:
                lane.wishes.append(run)
        return segments

    def _run_first(self, lane: _Lane, segments: list[_Segment]) -> None:
        """Run the first K members on the segments' samples and count the rows that they decide."""
        ends = np.cumsum([len(segment) for segment in segments]).tolist()
        images = lane.buffer[: ends[-1]]
        for segment, end in zip(segments, ends, strict=True):
            run = segment.run
            run.stream.perturb(images[end - len(segment) : end], run.pixels, run.sigma, segment.start)
        self.statistics.batches += 1
        self.statistics.rows += ends[-1]
        self.statistics.capacity += lane.batch
        firsts = _in_batches(lane, len(images), lambda part: lane.ensemble.first(images[part]))
        decided = torch.cat([first.decided for first in firsts])
        classes = torch.where(decided, torch.cat([first.classes for first in firsts]), UNDECIDED).cpu().numpy()
        for segment, end in zip(segments, ends, strict=True):
            segment.evaluated(lane.ensemble.leading, len(segment), lane.rows)
            segment.count(classes[end - len(segment) : end])
            if segment.undecided:
                lane.waiting.append((segment, segment.undecided))
        left = torch.from_numpy(np.flatnonzero(classes == UNDECIDED)).to(images.device)
        if len(left):
            lane.waiting_images.append(images[left])
            lane.waiting_outputs.append(torch.cat([first.outputs for first in firsts], dim=1)[:, left])

    def _run_rest(self, lane: _Lane, *, all_of_them: bool) -> None:
        """Run the other members on the rows that wait, in full slices unless all of them are asked for."""
        waiting = sum(count for _, count in lane.waiting)
        ready = waiting if all_of_them else waiting - waiting % lane.rows
        if not ready:
            return
        images, outputs = torch.cat(lane.waiting_images), torch.cat(lane.waiting_outputs, dim=1)
        lane.waiting_images, lane.waiting_outputs = [images[ready:]], [outputs[:, ready:]]
        found = _in_batches(lane, ready, lambda part: lane.ensemble.rest(images[part], outputs[:, part]))
        self.statistics.rest_batches += len(found)
        self.statistics.rest_rows += ready
        classes = torch.cat(found).cpu().numpy()
        others = len(lane.ensemble.members) - lane.ensemble.leading
        while len(classes):
            segment, count = lane.waiting.popleft()
            part, classes = classes[:count], classes[count:]
            if len(part) < count:
                lane.waiting.appendleft((segment, count - len(part)))
            segment.evaluated(others, len(part), lane.rows)
            segment.undecided -= len(part)
            segment.count(part)


def _in_batches(lane: _Lane, rows: int, work: Callable[[slice], Result]) -> list[Result]:
    """Work on all rows, in batches that shrink for as long as the device runs out of memory."""
    while True:
        try:
            return [work(slice(at, min(rows, at + lane.batch))) for at in range(0, rows, lane.batch)]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            lane.shrink(error)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Of a GPU, or of the host, for which torch has no class of its own."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def check_image(image: Tensor, input_shape: tuple[int, int, int]) -> Tensor:
    """float32 pixels [C, H, W] in [0, 1]; an error names what is wrong with the image."""
    if not isinstance(image, Tensor):
        raise ImageError(f"an image must be a tensor, got {type(image).__name__}")
    if tuple(image.shape) != input_shape:
        raise ImageError(f"the image has shape {tuple(image.shape)}, the ensemble takes {input_shape}")
    if image.dtype == torch.uint8:
        return image.float() / 255
    if not image.is_floating_point():
        raise ImageError(f"the image has dtype {image.dtype}; it must be uint8, or floating-point in [0, 1]")
    if not image.isfinite().all():
        raise ImageError(f"the image has {int((~image.isfinite()).sum())} values that are not finite")
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise ImageError(f"the image has values from {low:g} to {high:g}; they must lie in [0, 1]")
    return image.float()
