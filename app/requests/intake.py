"""Taking a request in: from what was posted to its place in the queue."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from app.http import npy
from app.http.body import Bodies, Share
from app.http.errors import ProblemError
from app.redis.queue import Queue, Receipt
from app.redis.retry_after import Turns, pace
from app.requests import admission
from app.requests.admission import Settled
from app.requests.images import Wanted, decode, decoded_bytes
from app.requests.submission import Submission
from app.settings import Settings
from smoothcert.published import EnsembleCard
from store import bookkeeping
from store.presence import Offer
from store.record import Record
from store.transitions import LONGEST_WAIT


@dataclass(frozen=True)
class Intake:
    """A request that can be answered, ready for the queue."""

    record: Record
    pixels: bytes
    """The images, as one npy file."""
    idempotency: tuple[str, str] | None
    """The key, and the digest of what was posted with it."""
    high: bool


def new_id() -> str:
    """Of a certification: 128 random bits, as nobody can guess it."""
    return f"cert_{secrets.token_hex(16)}"


async def admit(
    certification: str,
    posted: Submission,
    offer: Offer,
    *,
    owner: str,
    key: str | None,
    settings: Settings,
    bodies: Bodies,
    share: Share,
) -> Intake:
    """ProblemError where the request cannot be answered by this ensemble, or its images are not such as it takes."""
    card, count = offer.card, len(posted.images)
    settled = admission.settle(
        posted.request,
        card,
        images=count,
        most_samples=settings.samples,
        most_sequential=settings.sequential_samples,
    )
    admission.require_labels(settled.request, card, images=count)
    admission.require_provable(settled)
    wanted = _wanted(settled, card, settings)
    _require_room(count, wanted, settings)
    share.take(size := decoded_bytes(posted.images, wanted))
    pixels = await bodies.beside(posted.size + size, lambda: npy.write(decode(posted.images, wanted)))
    idempotency = (key, await bodies.beside(posted.size, posted.digest)) if key else None
    return Intake(
        _record(certification, settled, offer, owner, count), pixels, idempotency, settled.request.priority == "high"
    )


def _wanted(settled: Settled, card: EnsembleCard, settings: Settings) -> Wanted:
    channels, height, width = card.input_shape
    return Wanted(channels, height, width, settled.request.convert, settings.image_pixels)


def _require_room(count: int, wanted: Wanted, settings: Settings) -> None:
    """That the images, each of the size that is wanted, are not too large together: known before any is decoded."""
    total, most = count * wanted.height * wanted.width, settings.request_pixels
    if total > most:
        size = f"{wanted.width} x {wanted.height}"
        raise ProblemError(
            "too_large", f"{count:,} images of {size} have {total:,} pixels, a request may have {most:,}"
        )


def _record(certification: str, settled: Settled, offer: Offer, owner: str, images: int) -> Record:
    now, deadline = time.time(), settled.request.deadline_s
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
        seed=secrets.token_hex(16),  # never the caller's: who chooses it can shop for a lucky certificate
        created_at=now,
        expires_at=now + LONGEST_WAIT,
        deadline_at=now + deadline if deadline else 0.0,
    )


async def require_taken(receipt: Receipt, queue: Queue, turns: Turns, pool: str, settings: Settings) -> None:
    """ProblemError where the queue did not take it; with an honest time after which it might."""
    count = receipt.count
    match receipt.outcome:
        case "conflict":
            detail = f"the Idempotency-Key was used for another request, {receipt.certification}"
            raise ProblemError("idempotency_conflict", detail)
        case "full":
            most = settings.queue_length
            detail = f"{count:,} certifications wait, no more than {most:,} may"
            after = turns.seconds(pool, count - most + 1, await queue.endings(pool))
            raise ProblemError("queue_full", detail, retry_after=after)
        case "busy":
            most = settings.active_certifications
            detail = f"{count:,} of one's certifications have not ended, no more than {most:,} may be active"
            raise ProblemError("too_many_certifications", detail, retry_after=pace(await queue.endings(pool)))
