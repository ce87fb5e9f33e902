"""Who is there: what each live worker publishes of itself with its heartbeat, and what was served lately."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from smoothcert.published import EnsembleCard
from store import keys
from store.commands import Command

REMEMBERED = 3_600.0
"""Seconds for which requests to an ensemble are taken in after its last worker was seen: one may be restarting."""


class Presence(BaseModel):
    """A live worker."""

    model_config = ConfigDict(frozen=True)

    name: str
    pool: str
    device: str
    ensembles: tuple[EnsembleCard, ...]
    slots: int
    """Certifications that it takes at a time,"""
    live: int
    """and those that it has now."""
    batches: int
    fill: float
    """The mean share of a batch that held samples."""
    evaluations_per_second: float | None
    """As measured while busy; None before that."""
    started_at: float
    beat_at: float


class Offer(BaseModel):
    """An ensemble that a pool serves, or did lately."""

    model_config = ConfigDict(frozen=True)

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
