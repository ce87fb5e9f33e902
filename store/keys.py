"""The names of everything that is kept in Redis, RQ's own keys apart."""

from __future__ import annotations

import hashlib

CHANGED = "smoothcert:changed"
"""A channel: the id of each certification whose record has changed, and its status."""
DELETED = "deleted"
"""The status of one whose record is gone."""
STATISTICS = "smoothcert:statistics"
"""A hash of counters, by all workers since the beginning."""
WORKERS = "smoothcert:workers"
"""A sorted set: the names of workers, by when their last heartbeat expires."""
ENSEMBLES = "smoothcert:ensembles"
"""A hash: the card of every ensemble that was served lately, by `pool/name`."""
JANITOR = "smoothcert:janitor"
"""A lock: one janitor at a time."""


def record(certification: str) -> str:
    """A hash: the record of a certification."""
    return f"smoothcert:certification:{certification}"


def images(certification: str) -> str:
    """The images of a certification, as one npy file."""
    return f"smoothcert:images:{certification}"


def certificates(certification: str) -> str:
    """A hash: the certificates that are finished, as JSON, by the place of their image."""
    return f"smoothcert:certificates:{certification}"


def arrivals(certification: str) -> str:
    """A sorted set: the places of those certificates, in the order in which they were finished."""
    return f"smoothcert:arrivals:{certification}"


def checkpoints(certification: str) -> str:
    """A hash: how far the other images have come, as JSON, by their place."""
    return f"smoothcert:checkpoints:{certification}"


def owned(owner: str) -> str:
    """A sorted set: the certifications of an owner, by when they were made."""
    return f"smoothcert:owned:{owner}"


def active(owner: str) -> str:
    """A sorted set: those of them that have not ended, by when they are forgotten at the latest."""
    return f"smoothcert:active:{owner}"


def idempotency(owner: str, key: str) -> str:
    """What an Idempotency-Key of an owner was used for."""
    return f"smoothcert:idempotency:{owner}:{hashlib.sha256(key.encode()).hexdigest()}"


def worker(name: str) -> str:
    """What a live worker says of itself, as JSON; expires with its heartbeat."""
    return f"smoothcert:worker:{name}"


def finished(pool: str) -> str:
    """A list: when the last certifications of a pool ended, the newest first."""
    return f"smoothcert:finished:{pool}"
