"""A lane of the engine: the runs that share members, voting rule and K, and so share batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import RunCanceledError
from smoothcert.engine.form import is_out_of_memory
from smoothcert.engine.line import Line
from smoothcert.engine.run import Run, Segment
from smoothcert.engine.usage import Usage
from smoothcert.engine.waiting import Pending, Waiting

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class Lane:
    """The live runs of one view of an ensemble: those that want samples, and the rows that wait for other members."""

    def __init__(self, ensemble: Ensemble, batch: int, usage: Usage, runs: Sequence[Run] = ()) -> None:
        self.batch = self.first_batch = batch
        self.ensemble = ensemble if ensemble.members[0].form.shape[0] <= batch else ensemble.resized(batch)
        self._given = ensemble
        self._live: dict[Run, None] = dict.fromkeys(runs)  # in the order of arrival
        self._usage = usage
        self._hungry = Line(usage)  # those that want samples
        for run in runs:
            self._hungry.append(run)
        self._waiting = {members: Waiting() for members in self.ensemble.stages[:-1]}  # by the members that they asked

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

    @property
    def least_usage(self) -> float:
        """The least usage of the device among the owners of its runs."""
        return min((self._usage.of(owner) for owner in {run.owner for run in self._live}), default=0.0)

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
            if run.ended:  # it was canceled
                continue
            wanted = run.wanted
            count = min(space, wanted)
            segments.append(run.take(count))
            space -= count
            if count < wanted:
                self._hungry.append(run)
        return segments

    def wait(self, rows: Pending) -> None:
        """Queue undecided rows, until `ready` hands them on."""
        self._waiting[len(rows.outputs)].add(rows)

    def ready(self, flying: Callable[[], bool]) -> Iterator[Pending]:
        """The queued rows of each stage that fill whole slices; all of them where no more are to come.

        `flying` says whether the classes of a batch of this lane have yet to come back.
        """
        for waiting in self._waiting.values():
            if (rows := waiting.ready(self.rows, hurry=not self._hungry and not flying())) is not None:
                yield rows

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
        size = min(batch, self.first_batch)
        return [Lane(self._given, size, self._usage, part) for part in (runs[:middle], runs[middle:])]

    def end(self, error: Exception) -> None:
        """End every run of the lane with this error."""
        for run in self._live:
            run.fail(error)
        self.clear()

    def clear(self) -> None:
        """Let go of all runs."""
        self._live.clear()
        self._hungry.clear()
        for waiting in self._waiting.values():
            waiting.clear()

    def _drop_canceled(self) -> None:
        for run in [run for run in self._live if run.handle.canceled]:
            run.fail(RunCanceledError("the certification was canceled"))
            del self._live[run]
