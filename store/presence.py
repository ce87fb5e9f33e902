"""Who is there: what each live worker publishes of itself with its heartbeat, and what was served lately."""

from __future__ import annotations

import logging
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from smoothcert.errors import explain
from smoothcert.published import EnsembleCard
from store import keys
from store.commands import Command

logger = logging.getLogger(__name__)

REMEMBERED = 3_600.0
"""Seconds for which requests to an ensemble are taken in after its last worker was seen: one may be restarting."""


class Published(BaseModel):
    """What workers tell of themselves."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def salvage(cls, text: bytes) -> Self | None:
        """None where it cannot be read: a worker of another version must not stop the work on all others."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            logger.error("what a worker told cannot be read: %s", explain(error))
            return None


class Presence(Published):
    """A live worker."""

    name: str
    pool: str
    device: str
    ensembles: tuple[EnsembleCard, ...]
    live: int
    """Certifications that it has now."""
    fill: float
    """The mean share of a batch that held samples."""
    evaluations_per_second: float | None
    """As measured while busy; None before that."""
    beat_at: float


class Offer(Published):
    """An ensemble that a pool serves, or did lately."""

    pool: str
    card: EnsembleCard
    seen_at: float


def announce(presence: Presence, *, ttl: int) -> list[Command]:
    """A heartbeat."""
    offers = [Offer(pool=presence.pool, card=card, seen_at=presence.beat_at) for card in presence.ensembles]
    return [
        ("SET", keys.worker(presence.name), presence.model_dump_json(), "EX", ttl),
        ("ZADD", keys.WORKERS, presence.beat_at + ttl, presence.name),
        ("ZREMRANGEBYSCORE", keys.WORKERS, "-inf", presence.beat_at - REMEMBERED),
        *(("HSET", keys.ENSEMBLES, f"{offer.pool}/{offer.card.name}", offer.model_dump_json()) for offer in offers),
    ]


def leave(name: str) -> list[Command]:
    """A worker goes as it should."""
    return [("DEL", keys.worker(name)), ("ZREM", keys.WORKERS, name)]
