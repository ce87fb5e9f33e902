"""One certification of the queue, from what Redis holds of it to its certificates."""

from __future__ import annotations

import io
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.certificate import Certificate
from smoothcert.certification import Progress, Status
from smoothcert.engine import case as certification
from smoothcert.engine import run
from smoothcert.engine.case import Case
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import CheckpointError, ClosedError, RunCanceledError
from smoothcert.problem import Failure
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from store.record import Record
from store.statistics import bucket
from workers.errors import HoldingsError, ImagesLostError, LateError
from workers.holdings import Holdings
from workers.progress import image_progress

logger = logging.getLogger(__name__)

SHOWN = 32
"""Images under way whose progress is told."""


@dataclass(frozen=True)
class Stored:
    """What Redis holds of a certification."""

    record: Record
    images: bytes | None
    checkpoints: Mapping[int, bytes]
    certificates: Mapping[int, bytes]


@dataclass(frozen=True)
class Finished:
    """A certificate as JSON, and what is told of it in sums."""

    text: str
    decision: str
    samples: int
    evaluations: int

    @classmethod
    def of(cls, certificate: Certificate) -> Finished:
        """Of a certificate that was made just now."""
        return cls(
            certificate.model_dump_json(), certificate.decision, certificate.samples, certificate.evaluations or 0
        )

    @classmethod
    def read(cls, text: str) -> Finished:
        """From the JSON of an earlier execution."""
        said: dict[str, Any] = json.loads(text)
        return cls(text, said["decision"], said["samples"], said["evaluations"] or 0)


@dataclass(eq=False)
class Work:
    """A certification under way in this process; all but `cancel` belongs to the clerk's thread once it is prepared."""

    record: Record
    execution: str
    prepared: bool = False
    """Whether its procedures have been started; before that it only is kept alive."""
    live: dict[int, Case] = field(default_factory=dict)
    """The images under way, by their place."""
    finished: dict[int, Finished] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)
    """Certificates that are not in Redis yet."""
    spent: list[run.RunProgress] = field(default_factory=list)
    """Of images that ended without a certificate."""
    failure: Failure | None = None
    canceled: bool = False
    told: Progress | None = None
    saved: dict[int, int] = field(default_factory=dict)
    """Samples of each image at its last checkpoint."""
    samples_saved: int = 0
    saved_at: float = field(default_factory=time.monotonic)

    @property
    def suspect(self) -> bool:
        """Whether a worker died with it and it has come no further since."""
        return self.record.deaths > 0

    @property
    def ended(self) -> bool:
        """Whether nothing of it is under way any more."""
        return self.prepared and not self.live

    @property
    def wants_samples(self) -> bool:
        """Whether the engine still has something to do for it; if not, it only waits to be written down."""
        return any(not each.handle.future.done() for each in list(self.live.values()))

    @property
    def status(self) -> Status:
        """The final one, once it has ended."""
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
        """All evaluations, likewise."""
        return sum(each.evaluations for each in self._all_images())

    def _all_images(self) -> Iterator[run.RunProgress | Finished]:
        yield from (each.handle.progress for each in self.live.values())
        yield from self.finished.values()
        yield from self.spent

    @property
    def further(self) -> bool:
        """Whether a checkpoint of this execution has been written that is further than the one it began with."""
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
        """End it, and say why; the first reason counts."""
        self.failure = self.failure or failure
        self.stop()

    def absorb(self, index: int) -> None:
        """An image has ended: keep its certificate, or what went wrong."""
        ended = self.live.pop(index)
        try:
            finished = Finished.of(ended.result())
        except RunCanceledError:
            self.spent.append(ended.handle.progress)
        except ClosedError:  # the engine is gone: not this certification's fault, and the end of this process
            raise
        except Exception as error:  # whatever the networks raised belongs to this certification
            self.spent.append(ended.handle.progress)
            self.fail(Failure(code="engine_failed", detail=f"image {index}: {type(error).__name__}: {error}"))
        else:
            self.finished[index] = finished
            self.unsaved[index] = finished.text

    def checkpoints(self) -> dict[int, str]:
        """Of the images that have come further since they were last asked for."""
        found = {}
        for index, each in self.live.items():
            checkpoint = each.handle.checkpoint
            if checkpoint is not None and checkpoint.samples > self.saved.get(index, 0):
                self.saved[index] = checkpoint.samples
                found[index] = checkpoint.to_json()
        return found

    def told_in_vain(self) -> None:
        """Redis may not have heard what it was last told: all of it is due again."""
        self.told, self.saved_at = None, -math.inf
        self.saved.clear()

    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(
            images_done=len(self.finished),
            images_total=self.record.images,
            samples=self.samples,
            evaluations=self.evaluations,
            images=tuple(image_progress(each) for each in list(self.live.values())[:SHOWN]),
        )

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


def certify(
    work: Work, stored: Stored, *, engine: Engine, holdings: Holdings, ended: Callable[[Work, int], None]
) -> None:
    """Begin, or go on with, a certification; `ended` is called in the engine's thread for each image.

    It may take long: the boundaries of a sequential test of a million samples are seconds of work.
    """
    record, live = work.record, {}
    try:
        _require_time(record)
        work.finished = {index: Finished.read(text.decode()) for index, text in stored.certificates.items()}
        request, images = CertificationRequest.model_validate_json(record.request), _images(stored.images)
        ensemble, question = holdings.view(request, record.digest), Question.of(request, images=record.images)
        for index, image in enumerate(images):
            if index not in work.finished:
                begin = partial(certification.start, engine, image, question, seed=record.seed, index=index)
                live[index] = _resumed(partial(begin, ensemble=ensemble), stored.checkpoints.get(index), record.id)
    except HoldingsError as error:
        work.fail(Failure(code="ensemble_changed", detail=str(error)))
    except ClosedError:
        raise
    except ImagesLostError as error:
        work.fail(Failure(code="input_lost", detail=str(error)))
    except LateError as error:
        work.fail(Failure(code="deadline_exceeded", detail=str(error)))
    except Exception as error:  # whatever is wrong with one certification must not end the worker
        logger.exception("cannot be begun", extra={"certification_id": record.id})
        work.fail(Failure(code="internal", detail=f"{type(error).__name__}: {error}"))
    work.live, work.prepared = live, True  # all at once: the clerk must not see half a work
    if work.failure or work.canceled:
        work.stop()
    for index, each in list(live.items()):
        each.handle.future.add_done_callback(_telling(ended, work, index))


def _require_time(record: Record) -> None:
    if record.deadline_at and time.time() > record.deadline_at:
        raise LateError("the deadline had passed before it could be begun")


def _resumed(begin: Callable[..., Case], checkpoint: bytes | None, of: str) -> Case:
    """Go on from the checkpoint; from the beginning where it was made by another kind of worker.

    Which of the two it is does not depend on the counts, so the certificate is as good.
    """
    if checkpoint is not None:
        try:
            return begin(resume=Checkpoint.from_json(checkpoint))
        except CheckpointError as error:
            logger.warning("the checkpoint is of no use here: %s", error, extra={"certification_id": of})
    return begin()


def _telling(ended: Callable[[Work, int], None], work: Work, index: int) -> Callable[[Any], None]:
    return lambda _: ended(work, index)


def _images(data: bytes | None) -> Tensor:
    """[N, C, H, W] from the npy file that the API stored."""
    if data is None:
        raise ImagesLostError("the images are no longer there")
    return torch.from_numpy(np.load(io.BytesIO(data), allow_pickle=False))
