"""A certification: a request on its way, from the queue to one certificate for each image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from smoothcert.bounds import intervals
from smoothcert.certificate import Certificate
from smoothcert.problem import Failure
from smoothcert.procedures import Parameters
from smoothcert.request import CertificationRequest

Status = Literal["queued", "running", "succeeded", "failed", "canceling", "canceled", "expired"]
ENDED: frozenset[Status] = frozenset({"succeeded", "failed", "canceled", "expired"})
"""The statuses that never change again."""

SHOWN = 32
"""The most images under way whose progress is reported: more would fill the record and no screen."""

Whole = Annotated[int, Field(ge=0)]


class Wire(BaseModel):
    """The base of what the service answers: read-only; fields that a client does not know are ignored."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Look(Wire):
    """A count that a procedure has looked at, with what it says about p_A."""

    n: Whole
    """The samples that the look rests on."""
    count: Whole
    """How many of those n fell on the class."""
    p_interval: tuple[float, float]
    """An interval for p_A (Clopper–Pearson). Each end holds at all looks together with probability 1 - alpha, if other
    samples chose the class; if none did (n0 = 0), the interval is for display only."""

    @classmethod
    def at(
        cls, procedure: Parameters, counts: Sequence[int], sizes: Sequence[int], *, alpha: float
    ) -> tuple[Look, ...]:
        """Looks of this procedure at these counts among these numbers of samples; alpha is that of the image."""
        if procedure.exhaustive:  # a share of all outcomes is not an estimate
            found = tuple((count / n, count / n) for count, n in zip(counts, sizes, strict=True))
        else:
            found = intervals(tuple(counts), tuple(sizes), procedure.interval_alpha(alpha))
        rows = zip(sizes, counts, found, strict=True)
        return tuple(cls(n=n, count=count, p_interval=interval) for n, count, interval in rows)


class ImageProgress(Wire):
    """How far one image has come."""

    index: Whole
    stage: Whole
    """0 while samples of their own choose the class, then the look that is being worked for, from 1."""
    samples: Whole
    """All samples counted so far."""
    class_index: Whole | None
    """The class chosen; null until then."""
    n: Whole
    """Samples of the estimation so far."""
    count: Whole
    """How many of those n fell on the class."""
    p_interval: tuple[float, float] | None
    """An interval for p_A by the count that the next look will decide on: that of all n samples, or that of the stage
    alone where the procedure counts each stage anew; null while there are none. Its level is that of a look, but it
    promises nothing between two looks: it is for display only."""
    looks: tuple[Look, ...]
    """The looks taken so far."""


class Progress(Wire):
    """How far a certification has come; sums are over all of its images."""

    images_done: Whole
    images_total: Whole
    samples: Whole
    evaluations: Whole
    certified: Whole = 0
    """The images among the finished ones that are certified; the others abstain."""
    images: tuple[ImageProgress, ...] = ()
    """Some of the images under way."""

    @classmethod
    def sum_of(cls, parts: Iterable[Progress]) -> Progress:
        """The progress of a certification whose images are divided among several workers."""
        parts = list(parts)
        images = sorted((image for part in parts for image in part.images), key=lambda image: image.index)
        return cls(
            images_done=sum(part.images_done for part in parts),
            images_total=parts[0].images_total,
            samples=sum(part.samples for part in parts),
            evaluations=sum(part.evaluations for part in parts),
            certified=sum(part.certified for part in parts),
            images=tuple(images[:SHOWN]),
        )


class Stall(Wire):
    """Why a certification does not move: its worker is silent or lost, or no worker is alive."""

    since: datetime | None
    """The last sign of life of its worker; null where none is left or it has not begun."""
    until: datetime | None
    """When the worker is taken for dead and its work goes to another, from the last checkpoint; null where that has
    happened."""
    workers: Whole
    """The other live workers that can go on with it. Where there is none, the work goes on when one starts."""


class Urls(Wire):
    """The addresses of a certification, relative to the service."""

    self: str
    events: str
    cancel: str


class CertificationSummary(Wire):
    """A certification without its certificates, as lists have it."""

    id: str
    status: Status
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    """When the images, the certificates and the record itself are deleted; null once an archive keeps them."""
    queue_position: Whole | None
    """How many certifications are taken before it; null once it is no longer waiting."""
    ensemble: str
    request: CertificationRequest
    progress: Progress
    error: Failure | None
    """What went wrong, where the status is `failed`."""
    urls: Urls


class Certification(CertificationSummary):
    """A certification with the certificates that are finished, in the order of the images."""

    certificates: tuple[Certificate, ...]


class CertificationPage(Wire):
    """Some certifications, the newest first."""

    data: tuple[CertificationSummary, ...]
    next_cursor: str | None
    """Where the next page begins; null on the last."""
