"""A certification: a request on its way, from the queue to one certificate for each image."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from smoothcert.certificate import Certificate
from smoothcert.problem import Failure
from smoothcert.request import CertificationRequest

Status = Literal["queued", "running", "succeeded", "failed", "canceling", "canceled", "expired"]
ENDED: frozenset[Status] = frozenset({"succeeded", "failed", "canceled", "expired"})
"""A status that never changes again."""

Whole = Annotated[int, Field(ge=0)]


class Wire(BaseModel):
    """What the service says: read-only; a client of an older version passes over what it does not know."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Look(Wire):
    """A count that a procedure has looked at."""

    n: Whole
    count: Whole


class ImageProgress(Wire):
    """How far one image has come."""

    index: Whole
    stage: Whole
    """0 while the class is being chosen, then the look that is being worked for, from 1."""
    samples: Whole
    """All samples counted so far."""
    class_index: Whole | None
    """The class chosen; null until then."""
    n: Whole
    """Samples of the estimation so far."""
    count: Whole
    """How many of those n fell on the class."""
    p_interval: tuple[float, float] | None
    """Where p_A lies by these samples alone (Clopper–Pearson, each side at alpha): to look at, not to rely on."""
    looks: tuple[Look, ...]
    """The looks taken so far."""


class Progress(Wire):
    """How far a certification has come."""

    images_done: Whole
    images_total: Whole
    samples: Whole
    evaluations: Whole
    images: tuple[ImageProgress, ...] = ()
    """Some of the images under way."""


class Urls(Wire):
    """Where to go on."""

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
    expires_at: datetime
    """When inputs, certificates and the record itself are forgotten."""
    queue_position: Whole | None
    """How many are taken before it; null once it is no longer waiting."""
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
