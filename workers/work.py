"""A certification under way in this process, or a shard of one: its images, its certificates so far, and its end."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from smoothcert.certificate import Certificate
from smoothcert.certification import SHOWN, Progress, Status
from smoothcert.engine import range as ranges
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.errors import CheckpointError, ClosedError, RunCanceledError
from smoothcert.engine.run import RunProgress
from smoothcert.problem import Failure
from store.checkpoints import SavedCheckpoint
from store.record import Record
from store.statistics import bucket
from workers.lending import Lent, SharedDraw
from workers.progress import image_progress

if TYPE_CHECKING:
    from store.traces import Stretch

logger = logging.getLogger(__name__)

LEAST_GIVEN = 2
"""The number of images under way from which on some are given to an idle worker."""


@dataclass(frozen=True)
class FinishedImage:
    """A certificate as JSON, and the numbers of it that go into sums."""

    text: str
    decision: str
    samples: int
    evaluations: int

    @classmethod
    def of(cls, certificate: Certificate) -> FinishedImage:
        """For a certificate that was made just now."""
        return cls(
            certificate.model_dump_json(), certificate.decision, certificate.samples, certificate.evaluations or 0
        )

    @classmethod
    def read(cls, text: str) -> FinishedImage:
        """For the JSON that an earlier execution saved."""
        fields: dict[str, Any] = json.loads(text)
        return cls(text, fields["decision"], fields["samples"], fields["evaluations"] or 0)


@dataclass(eq=False)
class Work:
    """A certification under way. Once it is prepared, everything but `cancel` belongs to the clerk's thread."""

    record: Record
    execution: str
    prepared: bool = False
    """Whether its procedures have been started; before that it only has a heartbeat."""
    live: dict[int, Case] = field(default_factory=dict)
    """The images under way, by their place."""
    finished: dict[int, FinishedImage] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)
    """Certificates that are not in Redis yet."""
    spent: list[RunProgress] = field(default_factory=list)
    """What was spent on images that ended without a certificate."""
    failure: Failure | None = None
    canceled: bool = False
    reported: Progress | None = None
    """The progress that was last sent to Redis."""
    saved: dict[int, Checkpoint] = field(default_factory=dict)
    """The checkpoint of each image that Redis has."""
    samples_saved: int = 0
    saved_at: float = field(default_factory=lambda: time.monotonic())
    stretch: Stretch | None = None
    """Its span, where traces are on."""
    begins: dict[int, Callable[..., Case]] = field(default_factory=dict)
    """How the run of each image is begun, with `resume` and `procedure`."""
    watch: Callable[[int], None] = lambda _: None
    """Lets the clerk know when the run of an image ends."""
    shared: dict[int, SharedDraw] = field(default_factory=dict)
    """Images for which another worker draws a part, by their place; their runs end where that part begins."""
    alone: set[int] = field(default_factory=set)
    """Images that are not shared any more, because a part was lost: they may be what killed a worker."""
    counted: Checkpoint | None = None
    """What came out, where the work is a range of samples."""

    @property
    def suspect(self) -> bool:
        """Whether a worker died with it and it has made no progress since."""
        return self.record.deaths > 0

    @property
    def ended(self) -> bool:
        """Whether no image of it is under way any more."""
        return self.prepared and not self.live

    @property
    def wants_samples(self) -> bool:
        """Whether the engine still has something to do for it."""
        return any(not each.handle.future.done() for each in list(self.live.values()))

    @property
    def status(self) -> Status:
        """The final status, once it has ended."""
        if self.failure:
            return "failed"
        return "canceled" if self.canceled and len(self.finished) < len(self.record.place_list) else "succeeded"

    @property
    def samples(self) -> int:
        """All samples counted, of images finished, under way and given up."""
        if not self.prepared:
            return self.record.samples_saved
        if self.record.range:
            return sum(each.samples - self.record.first_sample for each in self._all_images())
        return sum(each.samples for each in self._all_images())

    @property
    def evaluations(self) -> int:
        """All evaluations, of images finished, under way and given up."""
        return sum(each.evaluations for each in self._all_images())

    def _all_images(self) -> Iterator[RunProgress | FinishedImage]:
        yield from (each.handle.progress for each in self.live.values())
        yield from self.finished.values()
        yield from self.spent

    @property
    def further(self) -> bool:
        """Whether this execution has saved a checkpoint that is further than the one it began with."""
        return self.samples_saved > self.record.samples_saved

    # --- giving images away

    @property
    def spare(self) -> list[int]:
        """The images that it can give to an idle worker: every second one of those under way, ordered by samples."""
        live = self.live.items() if self._shares else ()
        kept = self.shared.keys() | self.alone
        left = [index for index, each in live if index not in kept and not each.handle.future.done()]
        if len(left) < LEAST_GIVEN:
            return []
        return sorted(left, key=lambda index: -self.live[index].handle.progress.samples)[1::2]

    @property
    def _shares(self) -> bool:
        """Whether it may give anything away."""
        return self.prepared and not (self.suspect or self.canceled or self.failure or self.record.range)

    def spare_samples(self, shard: str) -> tuple[int, Lent] | None:
        """An image for which an idle worker can draw a part, and which part; None where there is none.

        One worker helps an image at a time.
        """
        live = list(self.live.items()) if self._shares and self.record.divisible else []
        kept = self.alone.union(index for index, _ in self.awaited)
        parts = ((index, Lent.of(shard, each)) for index, each in live if index not in kept)
        return next(((index, lent) for index, lent in parts if lent), None)

    @property
    def awaited(self) -> list[tuple[int, Lent]]:
        """The images for which another worker counts a part now, and which part."""
        return [(index, draw.lent) for index, draw in self.shared.items() if draw.lent]

    def lend(self, index: int, lent: Lent) -> None:
        """Count the image up to the part that another worker has; all of it, if it has come further meanwhile."""
        handle = self.live[index].handle
        checkpoint = handle.checkpoint
        if checkpoint is not None and lent.fits(checkpoint) and not handle.future.done():
            self.shared.setdefault(index, SharedDraw(lent.stop, lent.draws)).lent = lent
            self._go_on(index, checkpoint, until=lent.start)

    def receive(self, index: int, text: bytes | None) -> None:
        """Take what Redis has of a part: where it begins, what another worker has counted, or nothing any more."""
        draw = self.shared.get(index)
        # A run that has ended is absorbed first, and says how far this worker has come by itself.
        if draw is None or draw.lent is None or self.live[index].handle.future.done():
            return
        try:
            counted = draw.lent.read(text)
        except CheckpointError as error:
            logger.warning("a range cannot be used: %s", error, extra={"certification_id": self.record.id})
            draw.lent = None
            self.alone.add(index)
            return
        if counted is not None:
            draw.receive(counted)
            self._unite(index)

    def _unite(self, index: int) -> bool:
        """Go on behind the draw, once all parts have been counted; whether they have."""
        whole = self.shared[index].whole
        if whole is not None:
            del self.shared[index]
            self._go_on(index, whole)
        return whole is not None

    def _go_on(self, index: int, checkpoint: Checkpoint, *, until: int | None = None) -> None:
        """Let another run of an image take over from the one under way; it ends at the sample `until` of the draw."""
        procedure = None if until is None else ranges.up_to(checkpoint, until)
        earlier, self.live[index] = self.live[index], self.begins[index](resume=checkpoint, procedure=procedure)
        earlier.handle.cancel()
        if self.canceled or self.failure:  # perhaps just now, when this run was not there yet
            self.live[index].handle.cancel()
        self.watch(index)

    def samples_of(self, places: Iterable[int]) -> int:
        """The samples of these images in the checkpoints that Redis has."""
        return sum(self.saved[index].samples for index in places if index in self.saved)

    def give(self, places: Iterable[int], *, kept: str, samples: int) -> None:
        """Let go of images that another shard has from now on; `kept` and `samples` are what is left."""
        further = self.further
        for index in places:
            self.live.pop(index).handle.cancel()
            self.saved.pop(index, None)
        self.samples_saved = samples
        self.record = replace(self.record, places=kept, samples_saved=samples - further)

    def cancel(self) -> None:
        """End it before the next batch."""
        self.canceled = True
        self.stop()

    def stop(self) -> None:
        """Draw no more samples for it."""
        for each in list(self.live.values()):
            each.handle.cancel()

    def fail(self, failure: Failure) -> None:
        """End it with a reason; the first reason counts."""
        self.failure = self.failure or failure
        self.stop()

    def absorb(self, index: int) -> None:
        """Keep the certificate of an image that has ended, or the reason why there is none."""
        if not self.live[index].handle.future.done():
            return  # the run that ended is not the one under way
        if index in self.shared and self._at_the_end_of_its_part(index):
            return
        ended = self.live.pop(index)
        self.saved.pop(index, None)
        try:
            if self.record.range:
                ended.handle.result()
                self.counted = ended.handle.checkpoint
                self.spent.append(ended.handle.progress)
                return
            finished = FinishedImage.of(ended.result())
        except RunCanceledError:
            self.spent.append(ended.handle.progress)
        except ClosedError:  # the engine is closed: the process ends, and the certification is not at fault
            raise
        except Exception as error:  # whatever the networks raised belongs to this certification
            self.spent.append(ended.handle.progress)
            self.fail(Failure(code="engine_failed", detail=f"image {index}: {type(error).__name__}: {error}"))
        else:
            self.finished[index] = finished
            self.unsaved[index] = finished.text

    def _at_the_end_of_its_part(self, index: int) -> bool:
        """Whether the run that ended has counted its part of the draw; then the image goes on.

        The worker that has the next part may never be done, so this one counts it, too, until the other one is.
        """
        draw, handle = self.shared[index], self.live[index].handle
        if handle.future.exception() is not None or handle.checkpoint is None:
            del self.shared[index]
            return False
        draw.front = ranges.reopened(handle.checkpoint)
        if not self._unite(index):
            self._go_on(index, draw.front, until=draw.end)
        return True

    def checkpoints(self) -> dict[int, SavedCheckpoint]:
        """What is new of the checkpoints of the images that have come further since the last call."""
        found = {}
        for index, each in self.live.items():
            checkpoint, last = each.handle.checkpoint, self.saved.get(index)
            if checkpoint is None or (index in self.shared and not self.shared[index].open_in(checkpoint)):
                continue
            if checkpoint.samples > (last.samples if last else 0):
                self.saved[index] = checkpoint
                new = range(len(last.draws) if last else 0, len(checkpoint.draws))
                found[index] = SavedCheckpoint(checkpoint.rest_json(), {n: checkpoint.draw_json(n) for n in new})
        return found

    def report_again(self) -> None:
        """Make everything due again, because Redis may not have received the last report."""
        self.reported, self.saved_at = None, -math.inf
        self.saved.clear()

    def progress(self) -> Progress:
        return Progress(
            images_done=len(self.finished),
            images_total=self.record.images,
            samples=self.samples,
            evaluations=self.evaluations,
            certified=sum(each.decision == "certified" for each in self.finished.values()),
            images=tuple(image_progress(each) for each in list(self.live.values())[:SHOWN]),
        )

    def end_trace(self, outcome: str) -> None:
        """End its span, where traces are on."""
        if self.stretch is not None:
            self.stretch.end(outcome, samples=self.samples, evaluations=self.evaluations)

    def tally(self) -> dict[str, float]:
        """What its end adds to the statistics."""
        decisions = [each.decision for each in self.finished.values()]
        return {
            "certificates:certified": decisions.count("certified"),
            "certificates:abstain": decisions.count("abstain"),
            "samples": self.samples,
            "evaluations": self.evaluations,
        }

    def end_tally(self, now: float) -> dict[str, float]:
        """What the end of the certification adds to the statistics, however many shards it has."""
        return {
            f"certifications:{self.status}": 1,
            **bucket("duration", max(0.0, now - self.record.created_at)),
            **bucket("wait", max(0.0, (self.record.started_at or now) - self.record.created_at)),
        }
