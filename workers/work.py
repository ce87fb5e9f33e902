"""A certification under way in this process: its images, its certificates so far, and its end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smoothcert.certificate import Certificate
from smoothcert.certification import Progress, Status
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.errors import ClosedError, RunCanceledError
from smoothcert.engine.run import RunProgress
from smoothcert.problem import Failure
from store.checkpoints import SavedCheckpoint
from store.record import Record
from store.statistics import bucket
from workers.progress import image_progress

if TYPE_CHECKING:
    from store.traces import Stretch

SHOWN = 32
"""The most images under way whose progress is reported: more would fill the record and no screen."""


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
        return "canceled" if self.canceled and len(self.finished) < self.record.images else "succeeded"

    @property
    def samples(self) -> int:
        """All samples counted, of images finished, under way and given up."""
        if not self.prepared:
            return self.record.samples_saved
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
        ended = self.live.pop(index)
        self.saved.pop(index, None)
        try:
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

    def checkpoints(self) -> dict[int, SavedCheckpoint]:
        """What is new of the checkpoints of the images that have come further since the last call."""
        found = {}
        for index, each in self.live.items():
            checkpoint, last = each.handle.checkpoint, self.saved.get(index)
            if checkpoint is not None and checkpoint.samples > (last.samples if last else 0):
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

    def tally(self, now: float) -> dict[str, float]:
        """What its end adds to the statistics."""
        decisions = [each.decision for each in self.finished.values()]
        return {
            f"certifications:{self.status}": 1,
            "certificates:certified": decisions.count("certified"),
            "certificates:abstain": decisions.count("abstain"),
            "samples": self.samples,
            "evaluations": self.evaluations,
            **bucket("duration", max(0.0, now - self.record.created_at)),
            **bucket("wait", max(0.0, (self.record.started_at or now) - self.record.created_at)),
        }
