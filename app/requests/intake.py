"""From a posted request to its place in the queue."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request

from app.http import npy
from app.http.authentication import Keys
from app.http.body import Bodies, Share
from app.http.errors import ProblemError, invalid
from app.redis.queue import Queue
from app.redis.retry_after import retry_after
from app.redis.snapshot import Snapshot
from app.redis.submissions import Receipt
from app.requests import admission, submission
from app.requests.admission import Settled
from app.requests.images import ImageSpec, are_eight_bit, decode, decoded_bytes, source_bytes, with_sources
from app.requests.seeding import Seeding
from app.requests.submission import Submission
from app.settings import ApiSettings
from smoothcert.errors import OffGridError
from smoothcert.noise import Noise
from smoothcert.published import EnsembleCard
from smoothcert.request import CertificationRequest
from store import bookkeeping
from store.presence import Offer
from store.record import WITH_IMAGES, Record
from store.transitions.admission import LONGEST_WAIT

if TYPE_CHECKING:
    from store.traces import Traces

CERTIFICATE_BYTES = 2500
"""The bytes that a certificate is expected to take in Redis, however many classes there are: one of a single look takes
1,700, and each further look about 200. Its procedure may have long parameters, which it repeats."""


def new_id() -> str:
    """The id of a certification: 128 random bits, so that it cannot be guessed."""
    return f"cert_{secrets.token_hex(16)}"


class Intake:
    """Takes requests in: reads them, checks them, and puts them into the queue."""

    def __init__(
        self, settings: ApiSettings, keys: Keys, bodies: Bodies, queue: Queue, traces: Traces | None = None
    ) -> None:
        self._settings, self._keys, self._bodies, self._queue = settings, keys, bodies, queue
        self._traces = traces
        self._limits, self._receivers = settings.limits, settings.receivers
        self.seeding = Seeding.of(settings.seed_secret)

    async def take(
        self, request: Request, certification: str, *, owner: str, key: str | None, api: str, prediction: bool = False
    ) -> tuple[Receipt, Snapshot]:
        """Queue a request under a new id; ProblemError if it cannot be answered, or the queue does not accept it.

        `key` is the Idempotency-Key, `api` the name of the process that is to be told the end, and `prediction` asks
        for the class alone. Nothing of the body is held any longer
        when this returns, so that clients that wait for their certificates take no memory.
        """
        with self._bodies.share(owner) as share:
            posted = await submission.read(request, self._settings, share)
            if prediction:
                posted = replace(posted, request=admission.predicting(posted.request))
            high = posted.request.priority == "high"
            admission.require_right(high, self._keys, owner)
            admission.require_receiver(posted.request.webhook, self._receivers)
            admission.require_archive(posted.request, self._settings.archive)
            offer = await self._queue.staff.offer(posted.request.ensemble)
            settled = self._settle(posted, offer.card)
            spec = await self._spec(posted, settled, offer.card, share)
            images = await self._decode(posted, settled, spec, share)
            settled = replace(settled, request=settled.request.model_copy(update={"resize": spec.resize}))
            drawn, seed = await share.run(lambda: self.seeding.draw(settled.request, images))
            settled = replace(settled, request=drawn)
            pixels = await share.run(lambda: npy.write(images))
            idempotency = (key, await share.run(posted.digest)) if key else None
            record = self._record(
                certification, settled, offer, seed=seed, owner=owner, images=len(posted.images), api=api
            )
            receipt = await self._queue.submissions.add(record, pixels, idempotency=idempotency, high=high)
        await self._require_taken(receipt, offer.pool, owner)
        return receipt, Snapshot(record, {}, receipt.count)

    def _settle(self, posted: Submission, card: EnsembleCard) -> Settled:
        """The request with nothing left open; ProblemError if the ensemble can never answer it."""
        count, settings = len(posted.images), self._settings
        settled = admission.settle(
            posted.request,
            card,
            images=count,
            eight_bit=are_eight_bit(posted.images),
            most_samples=min(settings.samples, self._limits.samples),
            most_sequential=settings.sequential_samples,
        )
        admission.require_labels(settled.request, card, images=count)
        admission.require_prepared(settled.request, images=count)
        admission.require_provable(settled)
        return settled

    async def _spec(self, posted: Submission, settled: Settled, card: EnsembleCard, share: Share) -> ImageSpec:
        """What the images must be; where they are to be resized, this includes their sizes."""
        request = settled.request
        spec = ImageSpec(*card.input_shape, request.convert, self._settings.image_pixels, request.resize)
        self._require_room(len(posted.images), spec)
        return await share.run(lambda: with_sources(posted.images, spec))

    async def _decode(self, posted: Submission, settled: Settled, spec: ImageSpec, share: Share) -> npy.Pixels:
        """The images as one array; ProblemError if one of them is not such as the ensemble takes."""
        size = decoded_bytes(posted.images, spec)
        held = size + npy.HEADER + _certificate_bytes(settled) * len(posted.images)
        if held > (most := self._limits.owner_bytes):
            detail = f"the images and their certificates take {held:,} bytes, a key may have {most:,} at a time"
            raise ProblemError("too_large", detail)
        share.take(size + source_bytes(spec))
        noise = settled.question.noise

        def decoded() -> npy.Pixels:
            pixels = decode(posted.images, spec)
            _require_values(pixels, noise)
            return pixels

        return await share.run(decoded)

    def _require_room(self, count: int, spec: ImageSpec) -> None:
        """Refuse images that are too large together, before any of them is decoded."""
        total, most = count * spec.height * spec.width, self._settings.request_pixels
        if total > most:
            size = f"{spec.width} x {spec.height}"
            detail = f"{count:,} images of {size} have {total:,} pixels, at most {most:,} are accepted in a request"
            raise ProblemError("too_large", detail)

    async def _require_taken(self, receipt: Receipt, pool: str, owner: str) -> None:
        """ProblemError if the queue did not accept a request, with a time after which it probably will."""
        limits = self._limits
        match receipt.outcome:
            case "conflict":
                detail = f"the Idempotency-Key was used for another request, {receipt.certification}"
                raise ProblemError("idempotency_conflict", detail)
            case "gone":
                detail = f"the Idempotency-Key was used for {receipt.certification}, which has expired or was deleted"
                raise ProblemError("expired", detail)
            case "full":
                detail = f"{receipt.count:,} certifications wait, at most {limits.waiting:,} may"
                places = receipt.count - limits.waiting + 1
                raise ProblemError("queue_full", detail, retry_after=await retry_after(self._queue, pool, places))
            case "full_bytes":
                detail = f"{receipt.count:,} bytes are held for certifications that have not ended, of {limits.bytes:,}"
                raise ProblemError("queue_full", detail, retry_after=await retry_after(self._queue, pool, 1))
            case "busy":
                detail = f"{receipt.count:,} certifications of this key have not ended, at most {limits.active:,} may"
                raise await self._busy(detail, pool, owner)
            case "busy_samples":
                detail = f"certifications of this key may draw {receipt.count:,} samples, at most {limits.samples:,}"
                raise await self._busy(f"{detail} are allowed at a time", pool, owner)
            case "busy_bytes":
                detail = f"certifications of this key hold {receipt.count:,} bytes, at most {limits.owner_bytes:,}"
                raise await self._busy(f"{detail} are allowed at a time", pool, owner)

    async def _busy(self, detail: str, pool: str, owner: str) -> ProblemError:
        seconds = await retry_after(self._queue, pool, 1, owner=owner)
        return ProblemError("too_many_certifications", detail, retry_after=seconds)

    def _archive(self, request: CertificationRequest) -> int:
        if not self._settings.archive:
            return 0
        return WITH_IMAGES if request.archive_images else 1

    def _record(
        self, certification: str, settled: Settled, offer: Offer, *, seed: str, owner: str, images: int, api: str
    ) -> Record:
        now, deadline = time.time(), settled.request.deadline_s or self._settings.deadline_s
        return Record(
            id=certification,
            owner=owner,
            status="queued",
            pool=offer.pool,
            queue=bookkeeping.queue_name(offer.pool),
            ensemble=offer.card.name,
            digest=offer.card.digest,
            request=settled.request.model_dump_json(),
            images=images,
            slow=int(settled.question.procedure.slow_to_begin),
            size=_certificate_bytes(settled) * images,
            budget=images * settled.question.most_samples,
            seed=seed,
            created_at=now,
            expires_at=now + LONGEST_WAIT,
            deadline_at=now + deadline if deadline else 0.0,
            webhook=settled.request.webhook or "",
            archive=self._archive(settled.request),
            api=api,
            traceparent=self._traces.traceparent() if self._traces else "",
        )


def _certificate_bytes(settled: Settled) -> int:
    return max(CERTIFICATE_BYTES, CERTIFICATE_BYTES // 2 + len(settled.request.procedure.model_dump_json()))


def _require_values(images: npy.Pixels, noise: Noise) -> None:
    """Refuse images that the noise cannot be added to."""
    for index, pixels in enumerate(images):
        try:
            noise.require_values(pixels)
        except OffGridError as error:
            raise invalid(f"images.{index}", str(error), code="image_off_grid") from None
