"""A lane of the engine: the runs that share members, voting rule and K, and so share batches."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import RunCanceledError
from smoothcert.engine.form import is_out_of_memory
from smoothcert.engine.run import UNDECIDED, ClassCounts, Run, Segment

logger = logging.getLogger(__name__)

PATIENCE = 8
"""The batches for which a row without consensus waits until others fill a slice with it."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Pending:
    """Rows without consensus on their way to the other members."""

    shares: tuple[tuple[Segment, int], ...]
    """Whose rows they are, in order, and how many belong to each."""
    images: Tensor
    """The noisy images [N, C, H, W]."""
    outputs: Tensor
    """The logits [K, N, classes] of the first K members."""

    def __len__(self) -> int:
        return len(self.images)

    def count(self, classes: ClassCounts, *, members: int, rows: int) -> None:
        """Give every segment the classes [N] of its own rows."""
        end = 0
        for segment, share in self.shares:
            segment.count_rest(classes[end : end + share], members=members, rows=rows)
            end += share


class Lane:
    """The live runs of one view of an ensemble: those that want samples, and the rows that wait for other members."""

    def __init__(self, ensemble: Ensemble, batch: int, runs: Sequence[Run] = ()) -> None:
        self.batch = batch
        self.ensemble = ensemble if ensemble.members[0].form.shape[0] <= batch else ensemble.resized(batch)
        self._given = ensemble
        self._live: dict[Run, None] = dict.fromkeys(runs)  # in the order of arrival
        self._hungry: deque[Run] = deque(runs)  # those that want samples, the one served longest ago first
        self._shares: deque[tuple[Segment, int]] = deque()  # the owners of the rows that wait, in order
        self._images: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._waited = 0  # batches since the oldest of the rows that wait came

    @property
    def rows(self) -> int:
        """The rows that go through a network at once: every count is made in slices of this shape."""
        return self.ensemble.members[0].form.shape[0]

    def padded(self, rows: int) -> int:
        """As many rows, with those that fill the last slice."""
        return -(-rows // self.rows) * self.rows

    @property
    def idle(self) -> bool:
        return not self._live

    def add(self, run: Run) -> None:
        self._live[run] = None
        self._hungry.append(run)

    def fill(self) -> list[Segment]:
        """Samples for one batch. A run that wants more than fits waits for its next turn behind the others."""
        self._drop_canceled()
        segments: list[Segment] = []
        space = self.batch
        while space and self._hungry:
            run = self._hungry.popleft()
            segment = run.take(min(space, run.wanted))
            segments.append(segment)
            space -= len(segment)
            if run.wanted:
                self._hungry.append(run)
        return segments

    def undecided(self, segments: Sequence[Segment], classes: ClassCounts, images: Tensor, outputs: Tensor) -> None:
        """Queue the rows of a batch whose class is UNDECIDED, until `ready` hands them on."""
        rows = torch.from_numpy(np.flatnonzero(classes == UNDECIDED)).to(images.device)
        if not len(rows):
            return
        self._shares.extend((segment, segment.undecided) for segment in segments if segment.undecided)
        self._images.append(images[rows])
        self._outputs.append(outputs[:, rows])

    def ready(self) -> Pending | None:
        """The queued rows that fill whole slices; all of them where no run wants samples or the oldest waited long."""
        waiting = sum(share for _, share in self._shares)
        self._waited = self._waited + 1 if waiting else 0
        hurry = not self._hungry or self._waited >= PATIENCE
        count = waiting if hurry else waiting - waiting % self.rows
        if not count:
            return None
        self._waited = 0
        images, outputs = torch.cat(self._images), torch.cat(self._outputs, dim=1)
        self._images, self._outputs = [images[count:]], [outputs[:, count:]]
        return Pending(tuple(self._take_shares(count)), images[:count], outputs[:, :count])

    def _take_shares(self, count: int) -> list[tuple[Segment, int]]:
        """The owners of the first `count` queued rows; a share that does not fit whole is split."""
        taken = []
        while count:
            segment, share = self._shares.popleft()
            if share > count:
                self._shares.appendleft((segment, share - count))
                share = count
            taken.append((segment, share))
            count -= share
        return taken

    def settle(self) -> None:
        """Count what is complete; runs that want more samples queue for them, runs that ended leave."""
        for run in list(self._live):
            if run.settle():
                self._hungry.append(run)
            if run.ended:
                del self._live[run]

    def in_batches(self, rows: int, work: Callable[[slice], Result]) -> list[Result]:
        """Work on all rows, in batches that shrink for as long as the device runs out of memory."""
        while True:
            try:
                return [work(slice(at, min(rows, at + self.batch))) for at in range(0, rows, self.batch)]
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                self._shrink(error)

    def _shrink(self, reason: BaseException) -> None:
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
            return
        raise reason

    def halves(self, batch: int) -> list[Lane]:
        """Two lanes that share its runs, from where they were counted; none where it has only one."""
        runs = [run for run in self._live if not run.ended]
        if len(runs) < 2:
            return []
        for run in runs:
            run.rewind()
        middle = len(runs) // 2
        return [Lane(self._given, batch, part) for part in (runs[:middle], runs[middle:])]

    def end(self, error: Exception) -> None:
        """End every run of the lane with this error."""
        for run in self._live:
            run.fail(error)
        self.clear()

    def clear(self) -> None:
        """Let go of all runs."""
        for queue in (self._live, self._hungry, self._shares, self._images, self._outputs):
            queue.clear()

    def _drop_canceled(self) -> None:
        for run in [run for run in self._live if run.handle.canceled]:
            run.fail(RunCanceledError("the certification was canceled"))
            del self._live[run]
            if run in self._hungry:
                self._hungry.remove(run)
