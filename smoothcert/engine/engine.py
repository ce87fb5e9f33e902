"""The engine: drives many procedures at once and packs what they ask for into full batches.

One thread owns the device. Each step fills one batch of a fixed shape, first for the owners that have had least of the
device lately (`engine.usage`); it runs the first members on the batch, gathers the rows that they leave undecided
across batches until they fill a slice of their own, runs the next members on those, and so on, and sends complete
counts back to their procedures. There is no Python loop over samples, and only class indices leave the device. On a
device with a queue of its own, the next batch is drawn and enqueued before the classes of the last one are read
(`engine.device`).

The class of a sample depends on (ensemble, image, noise, seed, index) and, in its last bits, on the shape of the slices
that go through a network. So counts, and with them verdicts, are the same for every packing, order, interruption and
resume at one shape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import torch
from torch import Tensor

from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.device import Arrival, Device, device_of
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import ClosedError, DeviceError
from smoothcert.engine.lane import Lane
from smoothcert.engine.memory import fitting_batch
from smoothcert.engine.pace import Pace
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.poll import joined
from smoothcert.engine.run import Handle, Run, Segment
from smoothcert.engine.sampling import Streams
from smoothcert.engine.usage import Usage
from smoothcert.engine.waiting import Pending, Shares, count
from smoothcert.errors import require_count
from smoothcert.noise import Noise
from smoothcert.procedures import Procedure

logger = logging.getLogger(__name__)


@dataclass
class Workload:
    """What the engine has done so far, and how well its batches were filled."""

    batches: int = 0
    rows: int = 0
    capacity: int = 0
    rest_slices: int = 0
    rest_rows: int = 0
    evaluations: int = 0
    padded: int = 0
    """The evaluations with those of rows that only pad a slice."""

    def first(self, *, rows: int, padded: int, capacity: int, members: int) -> None:
        """Add a batch of the first members."""
        self.batches += 1
        self.rows += rows
        self.capacity += capacity
        self.evaluations += members * rows
        self.padded += members * padded

    def rest(self, *, rows: int, padded: int, slices: int, members: int) -> None:
        """Add slices of further members."""
        self.rest_slices += slices
        self.rest_rows += rows
        self.evaluations += members * rows
        self.padded += members * padded

    @property
    def fill(self) -> float:
        """The mean share of a batch that held samples."""
        return self.rows / self.capacity if self.capacity else 0.0


@dataclass(eq=False)
class Flight:
    """A batch that was enqueued and whose classes have not come back yet."""

    lane: Lane
    rows: Pending
    transfer: Arrival
    members: int
    """The members that see it."""
    first: bool = True
    """Whether no member has seen its rows before."""


class Engine:
    """Draws the samples of many procedures on one device; use it as a context manager, from any thread."""

    def __init__(self, ensemble: Ensemble, *, batch: int = 256, device: Device | None = None) -> None:
        require_count("batch", batch)
        self.ensemble, self.batch = ensemble, batch
        self.workload = Workload()
        self.paces: dict[str, Pace] = {}
        """How fast each ensemble is evaluated, by its name."""
        self.last_step = time.monotonic()
        """When a batch last ended, for a watchdog."""
        self._lanes: dict[tuple[object, ...], Lane] = {}
        self._turns: deque[Lane] = deque()  # the one served longest ago first
        self._usage = Usage()
        self._shares: dict[str, int] = {}  # the evaluations of each owner in the turn under way
        self._buffers: dict[tuple[int, ...], deque[Tensor]] = {}
        self._device = device or device_of(ensemble.device)
        self._flights: deque[Flight] = deque()
        self._arrived: list[tuple[Run, Ensemble]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._own, name=f"engine-{ensemble.device}", daemon=True)
        self._thread.start()

    def submit(
        self,
        procedure: Procedure,
        image: Tensor | Pixels,
        noise: Noise,
        seed: str,
        *,
        index: int = 0,
        ensemble: Ensemble | None = None,
        resume: Checkpoint | None = None,
        streams: Streams = ((0, 0),),
        party: tuple[str, ...] = (),
    ) -> Handle:
        """Run a procedure on an image [C, H, W] in [0, 1]; `noise`, `seed` and `index` determine all of its samples.

        `streams` repeats a run that went on with fresh noise. The first of `party` owns the run: the owner who has had
        least of the device lately is served first. The parties within it, such as the certifications of an owner, take
        turns.

        `ensemble` may be another view (voting, K) or another ensemble on the same device. Bad input raises here. A
        tensor is copied, so what the caller does to it later changes nothing.
        """
        chosen = ensemble or self.ensemble
        if chosen.device != self.ensemble.device:
            raise DeviceError(f"{chosen.name} is on {chosen.device}, and this engine is on {self.ensemble.device}")
        pixels = image if isinstance(image, Pixels) else Pixels.of(image, chosen.input_shape)
        run = Run(procedure, pixels, noise, seed, index, chosen, streams, party)
        if resume is not None:
            run.resume(resume)
        with self._changed:
            if self._closed:
                raise ClosedError("the engine is closed")
            if not run.ended:
                self._arrived.append((run, chosen))
                self._changed.notify()
        return run.handle

    def close(self) -> None:
        """End every run that is under way, and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:  # a garbage collection may close it from its own thread
            self._thread.join()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- everything below runs in the owner thread

    def _own(self) -> None:
        try:
            while self._absorb():
                if self._turns:
                    self._take_turn(self._next_lane())
        finally:  # whatever ends this thread, no caller is left waiting for it
            with self._changed:
                self._closed = True
                arrived, self._arrived = self._arrived, []
            for run, _ in arrived:
                run.fail(ClosedError("the engine was closed"))
            for lane in self._turns:
                lane.end(ClosedError("the engine was closed"))

    def _absorb(self) -> bool:
        """Take in what arrived, waiting for it if there is nothing else to do; False once the engine is closed."""
        with self._changed:
            while not (self._closed or self._arrived or self._turns):
                self._changed.wait()
            if self._closed:
                return False
            arrived, self._arrived = self._arrived, []
        for run, ensemble in arrived:
            try:
                lane = self._lane(ensemble)
            except Exception as error:  # a lane that cannot be made concerns only the runs that asked for it
                run.fail(error)
                continue
            lane.add(run)
        return True

    def _lane(self, ensemble: Ensemble) -> Lane:
        key = ensemble.view  # the lane keeps the members alive
        if key not in self._lanes:
            size = fitting_batch(self.batch, ensemble.input_shape, ensemble.device)
            self._lanes[key] = Lane(ensemble, size, self._usage)
            self._turns.append(self._lanes[key])
        return self._lanes[key]

    def _next_lane(self) -> Lane:
        """The lane with a run of the owner who has had least of the device; among equals, lanes take turns.

        An owner who asks for many views of an ensemble has many lanes, and not a larger part of the device.
        """
        return self._turns[0] if len(self._turns) == 1 else min(self._turns, key=lambda lane: lane.least_usage)

    def _take_turn(self, lane: Lane) -> None:
        self._turns.remove(lane)
        self._turns.append(lane)
        self._shares.clear()
        begun, before = time.monotonic(), replace(self.workload)
        try:
            self._step(lane)
        except Exception as error:  # the device or a network failed
            self._fail(lane, error)
        else:
            self._keep_size(lane)
            pace = self.paces.setdefault(lane.ensemble.name, Pace(lane.rows))
            pace.rows = lane.rows
            done = (self.workload.evaluations - before.evaluations) / (lane.batch * len(lane.ensemble.members))
            pace.see(self.workload.padded - before.padded, time.monotonic() - begun, filled=min(1.0, done))
        self.last_step = time.monotonic()
        self._usage.charge(self._shares, self.last_step - begun)
        if lane.idle:
            self._turns.remove(lane)
            self._lanes = {key: other for key, other in self._lanes.items() if other is not lane}

    def _fail(self, lane: Lane, error: Exception) -> None:
        logger.error("a batch of %s failed", lane.ensemble.name, exc_info=error)
        self._flights = deque(flight for flight in self._flights if flight.lane is not lane)
        self._find_the_cause(lane, error)

    def _find_the_cause(self, lane: Lane, error: Exception) -> None:
        """Find the image at fault by halving the lane: a run that fails alone ends, and all others go on."""
        try:
            halves = lane.halves(self.batch)
        except Exception:  # not even a lane can be made
            logger.exception("%s cannot go on", lane.ensemble.name)
            halves = []
        if halves:
            lane.clear()
            self._turns.extend(halves)
        else:
            lane.end(error)

    def _keep_size(self, lane: Lane) -> None:
        """Keep a smaller batch size once a step has succeeded with it; later lanes begin with it."""
        if lane.batch < lane.first_batch:
            self.batch = lane.batch
            self._buffers.clear()

    def _step(self, lane: Lane) -> None:
        """Enqueue one batch and the rows that are ready for further members, and count what came back."""
        segments = lane.fill()
        if segments:
            self._begin(lane, segments)
        enqueued = bool(segments)
        for pending in lane.ready(lambda: bool(self._flights_of(lane))):
            self._go_on(lane, pending)
            enqueued = True
        if not enqueued:  # all that its runs want is on its way
            self._land(lane)
        lane.settle()

    def _begin(self, lane: Lane, segments: list[Segment]) -> None:
        """Draw the segments' samples and enqueue the first members on them."""
        lengths = list(map(len, segments))
        shares = tuple(zip(segments, lengths, strict=True))
        buffers = self._buffers_of(lane)
        images = buffers[0][: sum(lengths)]
        for segment, own in zip(segments, torch.split(images, lengths), strict=True):
            segment.run.sample(own, segment.start)
        members = lane.ensemble.stages[0]
        self.workload.first(rows=len(images), padded=lane.padded(len(images)), capacity=lane.batch, members=members)
        polled = joined(lane.in_batches(len(images), lambda part: lane.ensemble.ask(images[part])))
        self._charge(shares, members)
        flight = Flight(lane, Pending(shares, images, polled.outputs), self._device.fetch(polled.classes), members)
        buffers.rotate(1)  # not before: after a batch that failed, the other buffer is still on its way
        self._enqueue(flight)

    def _go_on(self, lane: Lane, pending: Pending) -> None:
        """Enqueue the next members on undecided rows."""
        images, outputs = pending.images, pending.outputs
        polled = joined(lane.in_batches(len(pending), lambda part: lane.ensemble.ask(images[part], outputs[:, part])))
        members = len(polled.outputs) - len(outputs)
        self._charge(pending.shares, members)
        padded = lane.padded(len(pending))
        self.workload.rest(rows=len(pending), padded=padded, slices=padded // lane.rows, members=members)
        rows = replace(pending, outputs=polled.outputs)
        self._enqueue(Flight(lane, rows, self._device.fetch(polled.classes), members, first=False))

    def _charge(self, shares: Shares, members: int) -> None:
        """Note whose samples these members evaluate."""
        for segment, share in shares:
            owner = segment.run.owner
            self._shares[owner] = self._shares.get(owner, 0) + members * share

    def _enqueue(self, flight: Flight) -> None:
        """Let a batch fly; those before it come back while the device works on it."""
        self._flights.append(flight)
        while len(self._flights) >= self._device.depth:
            self._land_one(self._flights[0])

    def _flights_of(self, lane: Lane) -> list[Flight]:
        return [flight for flight in self._flights if flight.lane is lane]

    def _land(self, lane: Lane) -> None:
        """Wait for the batches of a lane."""
        for flight in self._flights_of(lane):
            if flight in self._flights:  # those of a lane that failed are forgotten
                self._land_one(flight)

    def _land_one(self, flight: Flight) -> None:
        """Wait for the classes of a batch, count them, and queue the rows that they leave undecided."""
        self._flights.remove(flight)
        lane = flight.lane
        try:
            classes = flight.transfer.classes()
            count(flight.rows.shares, classes, members=flight.members, rows=lane.rows, first=flight.first)
            if (left := flight.rows.undecided(classes, self._device.place)) is not None:
                lane.wait(left)
        except Exception as error:  # the device failed; it may be the turn of another lane
            self._fail(lane, error)

    def _buffers_of(self, lane: Lane) -> deque[Tensor]:
        """The memory in which batches are put together; the first is free, the others may be on their way.

        Lanes take turns, so those of one image shape share it.
        """
        shape = (lane.batch, *lane.ensemble.input_shape)
        if shape not in self._buffers:
            empty = partial(torch.empty, shape, device=lane.ensemble.device, dtype=torch.float32)
            self._buffers[shape] = deque(empty() for _ in range(self._device.depth))
        return self._buffers[shape]
