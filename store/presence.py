"""The live workers: what each publishes about itself with its heartbeat, and which ensembles were served lately."""

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
"""Seconds for which requests to an ensemble are accepted after its last worker was seen, which may be restarting."""


class Announcement(BaseModel):
    """A message from a worker to all other processes."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def salvage(cls, text: bytes) -> Self | None:
        """Parse the message; None where that fails, since a worker of another version must not stop all others."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            logger.error("a worker's announcement cannot be read: %s", explain(error))
            return None


class Speed(BaseModel):
    """How fast a worker evaluates one of its ensembles: measured at its load, and over the batches since."""

    model_config = ConfigDict(frozen=True)

    evaluations_per_second: float
    """Rows that only pad a slice count, too."""
    rows: int
    """The rows of a slice: fewer samples at a time take as long as these."""


class Presence(Announcement):
    """What a live worker says of itself with every heartbeat."""

    name: str
    pool: str
    device: str
    ensembles: tuple[EnsembleCard, ...]
    failed: dict[str, str] = {}
    """Why ensembles could not be loaded, by their names."""
    live: int
    """The number of certifications under way."""
    fill: float
    """The mean share of a batch that held samples."""
    speeds: dict[str, Speed] = {}
    """How fast each ensemble is evaluated, by its name."""
    beat_at: float
    dead_at: float = 0.0
    """When it is taken for dead unless it beats again; 0 if it does not say."""
    heartbeat_s: float = 2.0
    """Seconds between two of its heartbeats."""

    def holds(self, ensemble: str) -> bool:
        """Whether it holds an ensemble of this name."""
        return any(card.name == ensemble for card in self.ensembles)


class Offer(Announcement):
    """An ensemble that a pool serves or served lately."""

    pool: str
    card: EnsembleCard
    seen_at: float


def announce(presence: Presence, *, ttl: int) -> list[Command]:
    """Publish a heartbeat and the offers that go with it."""
    offers = [Offer(pool=presence.pool, card=card, seen_at=presence.beat_at) for card in presence.ensembles]
    return [
        ("SET", keys.worker(presence.name), presence.model_dump_json(), "EX", ttl),
        ("ZADD", keys.WORKERS, presence.beat_at + ttl, presence.name),
        ("ZREMRANGEBYSCORE", keys.WORKERS, "-inf", presence.beat_at - REMEMBERED),
        *(("HSET", keys.ENSEMBLES, f"{offer.pool}/{offer.card.name}", offer.model_dump_json()) for offer in offers),
    ]


def forget_all() -> list[Command]:
    """Forget all workers and what they offered: before the first worker starts at a server that nobody else uses."""
    return [("DEL", keys.WORKERS, keys.ENSEMBLES)]


def leave(name: str) -> list[Command]:
    """Remove a worker that shuts down in order."""
    return [("DEL", keys.worker(name)), ("ZREM", keys.WORKERS, name)]
