"""The names of all keys in Redis that are ours; RQ has its own."""

from __future__ import annotations

import hashlib

CHANGED = "smoothcert:changed"
"""The channel on which workers of earlier versions publish every change: the id of a certification and its status."""
DELETED = "deleted"
"""The status that is published when a record is deleted."""
STATISTICS = "smoothcert:statistics"
"""A hash of counters that all workers have added to since the beginning."""
WORKERS = "smoothcert:workers"
"""A sorted set of the names of workers, scored by when their last heartbeat expires."""
ENSEMBLES = "smoothcert:ensembles"
"""A hash of the cards of all ensembles that were served lately, by `pool/name`."""
JANITOR = "smoothcert:janitor"
"""The prefix of a lock for each pool: only one janitor sweeps at a time."""
AGENDA = "smoothcert:agenda"
"""A sorted set of `certification owner`, scored by when the janitor looks at it: at its deadline or its expiry."""
BYTES = "smoothcert:bytes"
"""A hash of the bytes that each owner's certifications hold until they have ended."""
SAMPLES = "smoothcert:samples"
"""A hash of the samples that each owner's certifications that have not ended may draw at most."""
RATES = "smoothcert:rates"
"""A sorted set of owners, scored by the time until which their allowance of requests is spent."""
VISITS = "smoothcert:visits"
"""A sorted set of addresses, scored by the time until which their allowance of examinations is spent."""
FAILURES = "smoothcert:failures"
"""A sorted set of addresses, scored by the time until which their allowance of wrong keys is spent."""

CONFIRMED = "smoothcert:confirmed"
"""A text that is written after what replicas must confirm."""
DELIVERIES = "smoothcert:deliveries"
"""A sorted set of certifications whose end is to be told to a webhook, scored by when to try next."""

ARCHIVAL = "smoothcert:archival"
"""A sorted set of certifications that the archive lacks or must erase, scored by when to try next."""


def changed(certification: str) -> str:
    """The channel on which the status of a certification is published whenever its record changes."""
    return f"{CHANGED}:{certification}"


def ends(api: str) -> str:
    """The channel on which an API process hears of the end of certifications that its clients wait for: id, status."""
    return f"{CHANGED}:{api}"


def record(certification: str) -> str:
    """A hash with the record of a certification."""
    return f"smoothcert:certification:{certification}"


def images(certification: str) -> str:
    """The images of a certification, as one npy file."""
    return f"smoothcert:images:{certification}"


def certificates(certification: str) -> str:
    """A hash of the finished certificates as JSON, by the place of their image."""
    return f"smoothcert:certificates:{certification}"


def arrivals(certification: str) -> str:
    """A sorted set of the places of those certificates, in the order in which they were finished."""
    return f"smoothcert:arrivals:{certification}"


def checkpoints(certification: str) -> str:
    """A hash of the checkpoints of the images under way without their draws, as JSON, by their place."""
    return f"smoothcert:checkpoints:{certification}"


def draws(certification: str) -> str:
    """A hash of the complete draws of the images under way, as JSON, by `place/number`."""
    return f"smoothcert:draws:{certification}"


def ranges(certification: str) -> str:
    """A hash of the checkpoints of ranges of samples, complete or not, as JSON, by the shard."""
    return f"smoothcert:ranges:{certification}"


def owned(owner: str) -> str:
    """A sorted set of the certifications of an owner, scored by when they were made."""
    return f"smoothcert:owned:{owner}"


def active(owner: str) -> str:
    """A sorted set of the owner's certifications that have not ended, scored by when each is forgotten at the
    latest."""
    return f"smoothcert:active:{owner}"


def waiting(pool: str, owner: str) -> str:
    """A sorted set of the certifications of an owner that wait in a pool, scored by when they were made."""
    return f"smoothcert:waiting:{pool}:{owner}"


def urgent(pool: str, owner: str) -> str:
    """The same as `waiting`, for those that have priority."""
    return f"smoothcert:urgent:{pool}:{owner}"


def turns(pool: str) -> str:
    """A sorted set of the owners with something that waits in a pool, in the order of their turns."""
    return f"smoothcert:turns:{pool}"


def urgent_turns(pool: str) -> str:
    """The same as `turns`, for what has priority."""
    return f"smoothcert:urgent-turns:{pool}"


def bell(pool: str) -> str:
    """A list on which idle workers of a pool block; an entry says that something may wait."""
    return f"smoothcert:bell:{pool}"


def idle(pool: str) -> str:
    """A sorted set of the idle workers of a pool, scored by when each counts as idle no longer."""
    return f"smoothcert:idle:{pool}"


def loads(pool: str) -> str:
    """A hash of the workers of a pool that look for work: how much each has under way, and until when that counts."""
    return f"smoothcert:loads:{pool}"


def summons(worker: str) -> str:
    """A list on which one worker blocks, beside the bell; an entry says that something waits for it."""
    return f"smoothcert:summons:{worker}"


def comeback(line: str) -> str:
    """The last time at which a client that found no room was told to return: in a pool, or in that of one owner."""
    return f"smoothcert:comeback:{line}"


def idempotency(owner: str, key: str) -> str:
    """The digest of the request and the id of the certification that an Idempotency-Key of an owner was used for."""
    return f"smoothcert:idempotency:{owner}:{hashlib.sha256(key.encode()).hexdigest()}"


def worker(name: str) -> str:
    """The `Presence` of a live worker as JSON; it expires with the heartbeat."""
    return f"smoothcert:worker:{name}"


def finished(pool: str) -> str:
    """A list of the times when the last certifications of a pool ended, the newest first."""
    return f"smoothcert:finished:{pool}"


def executions(queue: str) -> str:
    """A sorted set of `certification:execution`, scored by when its heartbeat expires: what the janitor judges by."""
    return f"smoothcert:executions:{queue}"


def erasure(certification: str) -> str:
    """The owner of a certification that was deleted, until the archive has erased it."""
    return f"smoothcert:erasure:{certification}"


def delivery(certification: str) -> str:
    """A hash of what a webhook is to be told about the end of a certification."""
    return f"smoothcert:delivery:{certification}"
