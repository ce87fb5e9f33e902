"""A lane of the engine: the runs that share members, voting rule and K, and so share batches."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from models.ensemble import Ensemble
from models.inference import is_out_of_memory
from workers.run import Run, Segment

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class Lane:
    """Its runs, and the rows of theirs that wait for the other members."""

    def __init__(self, ensemble: Ensemble, batch: int, runs: Sequence[Run] = ()) -> None:
        self.batch = batch
        self.ensemble = ensemble if ensemble.members[0].form.shape[0] <= batch else ensemble.resized(batch)
        self._given = ensemble
        self.live: dict[Run, None] = dict.fromkeys(runs)  # in the order of arrival
        self.wishes: deque[Run] = deque(runs)  # those that want samples, the one served longest ago first
        self.waiting: deque[tuple[Segment, int]] = deque()  # rows without consensus: whose, and how many
        self.waiting_images: list[Tensor] = []
        self.waiting_outputs: list[Tensor] = []
        self.waited = 0  # batches since the oldest of them came

    @property
    def rows(self) -> int:
        """The rows that go through a network at once: every count is made in slices of this shape."""
        return self.ensemble.members[0].form.shape[0]

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
        """Two lanes that share its runs, from where they were counted; none where it has but one."""
        runs = [run for run in self.live if not run.ended]
        if len(runs) < 2:
            return []
        for run in runs:
            run.rewind()
        middle = len(runs) // 2
        return [Lane(self._given, batch, part) for part in (runs[:middle], runs[middle:])]

    def end(self, error: Exception) -> None:
        """Every run of the lane ends with this error."""
        for run in self.live:
            run.fail(error)
        self.clear()

    def clear(self) -> None:
        """Let go of all runs."""
        for kept in (self.live, self.wishes, self.waiting, self.waiting_images, self.waiting_outputs):
            kept.clear()
