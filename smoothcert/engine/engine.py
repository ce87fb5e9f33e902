"""The engine: drives many procedures at once and packs what they ask for into full batches.

One thread owns the device. Each step fills one batch of a fixed shape for the runs served longest ago, runs the first K
members on it, gathers the rows without consensus across batches until they fill a slice of their own, runs the other
members on those, and sends complete counts back to their procedures. No Python loop over samples; only class indices
leave the device.

The class of a sample depends on (ensemble, image, noise, seed, index) and, in its last bits, on the shape of the slices
that go through a network. So counts, and with them verdicts, are the same for every packing, order, interruption and
resume at one shape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import ClosedError, DeviceError
from smoothcert.engine.lane import Lane, Pending
from smoothcert.engine.pace import Pace
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.run import UNDECIDED, Handle, Run, Segment
from smoothcert.engine.sampling import Streams
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
        """Add slices of the other members."""
        self.rest_slices += slices
        self.rest_rows += rows
        self.evaluations += members * rows
        self.padded += members * padded

    @property
    def fill(self) -> float:
        """The mean share of a batch that held samples."""
        return self.rows / self.capacity if self.capacity else 0.0


class Engine:
    """Draws the samples of many procedures on one device; use it as a context manager, from any thread."""

    def __init__(self, ensemble: Ensemble, *, batch: int = 256) -> None:
        require_count("batch", batch)
        self.ensemble, self.batch = ensemble, batch
        self.workload = Workload()
        self.paces: dict[str, Pace] = {}
        """How fast each ensemble is evaluated, by its name."""
        self.last_step = time.monotonic()
        """When a batch last ended, for a watchdog."""
        self._lanes: dict[tuple[object, ...], Lane] = {}
        self._turns: deque[Lane] = deque()
        self._buffers: dict[tuple[int, ...], Tensor] = {}
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
    ) -> Handle:
        """Run a procedure on an image [C, H, W] in [0, 1]; `noise`, `seed` and `index` determine all of its samples.

        `streams` repeats a run that went on with fresh noise.

        `ensemble` may be another view (voting, K) or another ensemble on the same device. Bad input raises here. A
        tensor is copied, so what the caller does to it later changes nothing.
        """
        chosen = ensemble or self.ensemble
        if chosen.device != self.ensemble.device:
            raise DeviceError(f"{chosen.name} is on {chosen.device}, this engine on {self.ensemble.device}")
        pixels = image if isinstance(image, Pixels) else Pixels.of(image, chosen.input_shape)
        run = Run(procedure, pixels, noise, seed, index, chosen, streams)
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
                    self._take_turn(self._turns[0])
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
            self._lanes[key] = Lane(ensemble, self.batch)
            self._turns.append(self._lanes[key])
        return self._lanes[key]

    def _take_turn(self, lane: Lane) -> None:
        self._turns.rotate(-1)
        begun, padded = time.monotonic(), self.workload.padded
        try:
            self._step(lane)
        except Exception as error:  # the device or a network failed
            logger.exception("a batch of %s failed", lane.ensemble.name)
            self._find_the_cause(lane, error)
        else:
            self._keep_size(lane)
            pace = self.paces.setdefault(lane.ensemble.name, Pace(lane.rows))
            pace.rows = lane.rows
            pace.see(self.workload.padded - padded, time.monotonic() - begun)
        self.last_step = time.monotonic()
        if lane.idle:
            self._turns.remove(lane)
            self._lanes = {key: other for key, other in self._lanes.items() if other is not lane}

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
        if lane.batch < self.batch:
            self.batch = lane.batch
            self._buffers.clear()

    def _step(self, lane: Lane) -> None:
        """Run one batch, and those of the rows that wait for the other members that are ready."""
        segments = lane.fill()
        if segments:
            self._run_first(lane, segments)
        pending = lane.ready()
        if pending:
            self._run_rest(lane, pending)
        lane.settle()

    def _run_first(self, lane: Lane, segments: list[Segment]) -> None:
        """Run the first K members on the segments' samples and count the rows that they decide."""
        # Segment i occupies the rows ends[i] - len(segment) to ends[i] of the batch.
        ends = np.cumsum([len(segment) for segment in segments]).tolist()
        images = self._buffer(lane)[: ends[-1]]
        for segment, end in zip(segments, ends, strict=True):
            segment.run.sample(images[end - len(segment) : end], segment.start)
        self.workload.first(
            rows=ends[-1], padded=lane.padded(ends[-1]), capacity=lane.batch, members=lane.ensemble.leading
        )
        firsts = lane.in_batches(len(images), lambda part: lane.ensemble.first(images[part]))
        decided = torch.cat([first.decided for first in firsts])
        classes = torch.where(decided, torch.cat([first.classes for first in firsts]), UNDECIDED).cpu().numpy()
        for segment, end in zip(segments, ends, strict=True):
            segment.count_first(classes[end - len(segment) : end], members=lane.ensemble.leading, rows=lane.rows)
        lane.undecided(segments, classes, images, torch.cat([first.outputs for first in firsts], dim=1))

    def _run_rest(self, lane: Lane, pending: Pending) -> None:
        """Run the other members on rows without consensus and count the full vote."""
        images, outputs = pending.images, pending.outputs
        classes = lane.in_batches(len(pending), lambda part: lane.ensemble.rest(images[part], outputs[:, part]))
        others = len(lane.ensemble.members) - lane.ensemble.leading
        padded = lane.padded(len(pending))
        self.workload.rest(rows=len(pending), padded=padded, slices=padded // lane.rows, members=others)
        pending.count(torch.cat(classes).cpu().numpy(), members=others, rows=lane.rows)

    def _buffer(self, lane: Lane) -> Tensor:
        """The memory in which a batch is put together; lanes take turns, so those of one image shape share it."""
        shape = (lane.batch, *lane.ensemble.input_shape)
        if shape not in self._buffers:
            self._buffers[shape] = torch.empty(shape, device=lane.ensemble.device, dtype=torch.float32)
        return self._buffers[shape]
