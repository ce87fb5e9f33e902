"""From what Redis holds of a certification to a `Work` whose images are under way in the engine."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.engine import range as ranges
from smoothcert.engine.case import Case, start
from smoothcert.engine.checkpoint import Checkpoint, Machine
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import CheckpointError, ClosedError
from smoothcert.engine.pixels import Pixels
from smoothcert.problem import Failure
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from store.checkpoints import SavedCheckpoint
from store.record import Record
from workers.errors import HoldingsError, ImagesLostError, LateError
from workers.holdings import Holdings
from workers.work import FinishedImage, Work

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """What Redis holds of a certification."""

    record: Record
    images: bytes | None
    """One npy file."""
    checkpoints: Mapping[int, SavedCheckpoint]
    """Checkpoints by the place of their image."""
    certificates: Mapping[int, bytes]
    """Finished certificates as JSON, by the place of their image; of all shards."""
    counted: bytes | None = None
    """Where a range of samples stands, if the shard is one."""


def certify(
    work: Work, stored: Stored, *, engine: Engine, holdings: Holdings, ended: Callable[[Work, int], None]
) -> None:
    """Begin a certification or go on with it; `ended` is called in the engine's thread for each image.

    This may take long: the boundaries of a sequential test of a million samples are seconds of work.
    """
    record = work.record
    live: dict[int, Case] = {}
    try:
        _require_time(record)
        places = record.place_list
        done = {index: stored.certificates[index] for index in places if index in stored.certificates}
        work.finished = {index: FinishedImage.read(text.decode()) for index, text in done.items()}
        request, images = CertificationRequest.model_validate_json(record.request), _images(stored.images)
        ensemble, question = holdings.view(request, record.digest), Question.of(request, images=record.images)
        _, height, width = ensemble.input_shape
        for index in places:
            if index not in work.finished:
                begin = partial(
                    start,
                    engine,
                    Pixels.owned(images[index], ensemble.input_shape),
                    question,
                    seed=record.seed,
                    nonce=request.nonce,
                    index=index,
                    ensemble=ensemble,
                    party=(record.owner, record.id),
                    resized=request.resize.record(index, (width, height)) if request.resize else None,
                    prepared=request.prepared[index] if request.prepared else None,
                )
                work.begins[index] = begin
                if record.range:
                    live[index] = _ranged(begin, record, stored.counted, ensemble)
                else:
                    live[index] = _resumed(begin, work, index, stored.checkpoints.get(index))
    except HoldingsError as error:
        work.fail(Failure(code="ensemble_changed", detail=str(error)))
    except ClosedError:
        raise
    except ImagesLostError as error:
        work.fail(Failure(code="input_lost", detail=str(error)))
    except LateError as error:
        work.fail(Failure(code="deadline_exceeded", detail=str(error)))
    except Exception as error:  # whatever is wrong with one certification must not end the worker
        logger.exception("cannot be started", extra={"certification_id": record.id})
        work.fail(Failure(code="internal", detail=f"{type(error).__name__}: {error}"))
    work.watch = lambda index: work.live[index].handle.future.add_done_callback(_calling(ended, work, index))
    work.live, work.prepared = live, True  # at once, so that the clerk never sees half of the images
    if work.failure or work.canceled:
        work.stop()
    for index, each in list(live.items()):
        each.handle.future.add_done_callback(_calling(ended, work, index))


def _require_time(record: Record) -> None:
    if record.deadline_at and time.time() > record.deadline_at:
        raise LateError("the deadline passed before a worker could begin")


def _resumed(begin: Callable[..., Case], work: Work, index: int, saved: SavedCheckpoint | None) -> Case:
    """Go on from the checkpoint; from the beginning if there is none, or if it is damaged or of an older version.

    Whether a checkpoint is damaged does not depend on its counts, so the certificate is as good.
    """
    if saved is not None:
        try:
            checkpoint = Checkpoint.from_json(saved.rest, saved.draws)
            case = begin(resume=checkpoint)
        except CheckpointError as error:
            logger.warning("the checkpoint cannot be used: %s", error, extra={"certification_id": work.record.id})
        else:
            work.saved[index] = checkpoint
            return case
    return begin()


def _ranged(begin: Callable[..., Case], record: Record, counted: bytes | None, ensemble: Ensemble) -> Case:
    """Draw a range of the samples of an image; CheckpointError if a machine of another kind has the image."""
    start, stop = map(int, record.range.split("-"))
    checkpoint = ranges.read(counted or b"")
    if checkpoint.parts[-1].machine != Machine.of(ensemble):
        raise CheckpointError("the samples of the image are drawn on a machine of another kind")
    return begin(resume=checkpoint, procedure=ranges.counting(start, stop - start))


def _calling(ended: Callable[[Work, int], None], work: Work, index: int) -> Callable[[Any], None]:
    return lambda _: ended(work, index)


def _images(data: bytes | None) -> Tensor:
    """[N, C, H, W] from the npy file that the API stored."""
    if data is None:
        raise ImagesLostError("the images are no longer in Redis")
    return torch.from_numpy(np.load(io.BytesIO(data), allow_pickle=False))
