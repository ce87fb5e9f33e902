"""The engine: drives many procedures at once and packs what they ask for into full batches.

One thread owns the device. Each step fills one batch of a fixed shape with the oldest wishes, runs the first K members
on it, gathers the rows without consensus across batches until they fill a slice of their own, runs the other members on
those, and sends complete counts back to their procedures. No Python loop over samples; only class indices leave the
device.

The class of a sample depends on (ensemble, image, sigma, seed, index) and, in its last bits, on the shape of the slices
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

from models.ensemble import Ensemble
from smoothcert.errors import require_count
from smoothcert.procedures import Procedure
from workers.checkpoint import Checkpoint
from workers.errors import CanceledError, ClosedError, EngineError
from workers.lane import Lane
from workers.run import UNDECIDED, Handle, Run, Segment

logger = logging.getLogger(__name__)

PATIENCE = 8
"""Batches for which a row without consensus waits for others to fill a slice with."""


@dataclass
class Statistics:
    """How well the batches were filled."""

    batches: int = 0
    rows: int = 0
    capacity: int = 0
    rest_slices: int = 0
    rest_rows: int = 0
    evaluations: int = 0

    def first(self, *, rows: int, capacity: int, members: int) -> None:
        """A batch for the first members."""
        self.batches += 1
        self.rows += rows
        self.capacity += capacity
        self.evaluations += members * rows

    def rest(self, *, rows: int, slices: int, members: int) -> None:
        """Slices for the others."""
        self.rest_slices += slices
        self.rest_rows += rows
        self.evaluations += members * rows

    @property
    def fill(self) -> float:
        """The mean share of a batch that held samples."""
        return self.rows / self.capacity if self.capacity else 0.0


class Engine:
    """Draws the samples of many procedures on one device; use it as a context manager, from any thread."""

    def __init__(self, ensemble: Ensemble, *, batch: int = 256) -> None:
        require_count("batch", batch)
        self.ensemble, self.batch = ensemble, batch
        self.statistics = Statistics()
        self.last_step = time.monotonic()
        """When a batch last ended, for whoever watches that the device moves."""
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
        image: Tensor,
        sigma: float,
        seed: str,
        *,
        index: int = 0,
        ensemble: Ensemble | None = None,
        resume: Checkpoint | None = None,
    ) -> Handle:
        """Run a procedure on an image [C, H, W] in [0, 1]; `seed` and `index` determine all of its noise.

        `ensemble` may be another view (voting, K) or another ensemble on the same device. Bad input raises here, and
        the image is copied: what the caller does to it later changes nothing.
        """
        chosen = ensemble or self.ensemble
        if chosen.device != self.ensemble.device:
            raise EngineError(f"{chosen.name} is on {chosen.device}, this engine on {self.ensemble.device}")
        run = Run(procedure, image, sigma, seed, index, chosen)
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
        try:
            while self._absorb():
                if self._turns:
                    self._take_turn(self._turns[0])
        finally:  # whatever ends this thread, nobody is left waiting for it
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
            except Exception as error:  # a lane that cannot be made concerns those who asked for it
                run.fail(error)
                continue
            lane.live[run] = None
            lane.wishes.append(run)
        return True

    def _lane(self, ensemble: Ensemble) -> Lane:
        members = tuple(id(member) for member in ensemble.members)  # the lane keeps them alive
        key = (members, ensemble.voting, ensemble.consensus)
        if key not in self._lanes:
            self._lanes[key] = Lane(ensemble, self.batch)
            self._turns.append(self._lanes[key])
        return self._lanes[key]

    def _take_turn(self, lane: Lane) -> None:
        self._turns.rotate(-1)
        try:
            self._step(lane)
        except Exception as error:  # the device or a network failed
            logger.exception("a batch of %s failed", lane.ensemble.name)
            self._find_the_cause(lane, error)
        else:
            self._keep_size(lane)
        self.last_step = time.monotonic()
        if not lane.live:
            self._turns.remove(lane)
            self._lanes = {key: other for key, other in self._lanes.items() if other is not lane}

    def _find_the_cause(self, lane: Lane, error: Exception) -> None:
        """Whose image it was is found by halving: a run that fails alone ends, and all others go on."""
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
        """What was too much for one is too much for the next; what fails at any size is not the size's fault."""
        if lane.batch < self.batch:
            self.batch = lane.batch
            self._buffers.clear()

    def _step(self, lane: Lane) -> None:
        """One batch of the oldest wishes, and what is ready of the rows that wait for the other members."""
        self._drop_canceled(lane)
        segments = self._fill(lane)
        if segments:
            self._run_first(lane, segments)
        self._run_rest(lane)
        for run in list(lane.live):
            if run.settle() and not run.ended:
                lane.wishes.append(run)
            if run.ended:
                del lane.live[run]

    def _drop_canceled(self, lane: Lane) -> None:
        for run in [run for run in lane.live if run.handle.canceled]:
            run.fail(CanceledError("the certification was canceled"))
            del lane.live[run]
            if run in lane.wishes:
                lane.wishes.remove(run)

    def _fill(self, lane: Lane) -> list[Segment]:
        """Samples for one batch; whoever wants more than fits waits for its next turn behind the others."""
        segments: list[Segment] = []
        space = lane.batch
        while space and lane.wishes:
            run = lane.wishes.popleft()
            segment = run.take(min(space, run.wish))
            segments.append(segment)
            space -= len(segment)
            if run.wish:
                lane.wishes.append(run)
        return segments

    def _run_first(self, lane: Lane, segments: list[Segment]) -> None:
        """Run the first K members on the segments' samples and count the rows that they decide."""
        ends = np.cumsum([len(segment) for segment in segments]).tolist()
        images = self._buffer(lane)[: ends[-1]]
        for segment, end in zip(segments, ends, strict=True):
            segment.run.perturb(images[end - len(segment) : end], segment.start)
        self.statistics.first(rows=ends[-1], capacity=lane.batch, members=lane.ensemble.leading)
        firsts = lane.in_batches(len(images), lambda part: lane.ensemble.first(images[part]))
        decided = torch.cat([first.decided for first in firsts])
        classes = torch.where(decided, torch.cat([first.classes for first in firsts]), UNDECIDED).cpu().numpy()
        for segment, end in zip(segments, ends, strict=True):
            segment.evaluated(lane.ensemble.leading, len(segment))
            segment.rows = lane.rows
            segment.count(classes[end - len(segment) : end])
            if segment.undecided:
                lane.waiting.append((segment, segment.undecided))
        left = torch.from_numpy(np.flatnonzero(classes == UNDECIDED)).to(images.device)
        if len(left):
            lane.waiting_images.append(images[left])
            lane.waiting_outputs.append(torch.cat([first.outputs for first in firsts], dim=1)[:, left])

    def _buffer(self, lane: Lane) -> Tensor:
        """Where a batch is put together; lanes take turns, so those of one image shape share it."""
        shape = (lane.batch, *lane.ensemble.input_shape)
        if shape not in self._buffers:
            self._buffers[shape] = torch.empty(shape, device=lane.ensemble.device, dtype=torch.float32)
        return self._buffers[shape]

    def _run_rest(self, lane: Lane) -> None:
        """Run the other members on the rows that wait: on full slices, or on all where nothing else is to be done."""
        waiting = sum(count for _, count in lane.waiting)
        lane.waited = lane.waited + 1 if waiting else 0
        hurry = not lane.wishes or lane.waited >= PATIENCE
        ready = waiting if hurry else waiting - waiting % lane.rows
        if not ready:
            return
        lane.waited = 0
        images, outputs = torch.cat(lane.waiting_images), torch.cat(lane.waiting_outputs, dim=1)
        lane.waiting_images, lane.waiting_outputs = [images[ready:]], [outputs[:, ready:]]
        found = lane.in_batches(ready, lambda part: lane.ensemble.rest(images[part], outputs[:, part]))
        others = len(lane.ensemble.members) - lane.ensemble.leading
        self.statistics.rest(rows=ready, slices=-(-ready // lane.rows), members=others)
        classes = torch.cat(found).cpu().numpy()
        while len(classes):
            segment, count = lane.waiting.popleft()
            part, classes = classes[:count], classes[count:]
            if len(part) < count:
                lane.waiting.appendleft((segment, count - len(part)))
            segment.evaluated(others, len(part))
            segment.rest_rows = lane.rows
            segment.undecided -= len(part)
            segment.count(part)
