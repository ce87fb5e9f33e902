"""The archive's share of Redis: which certifications are to be written to it, and which are to be erased from it.

    smoothcert:archival       the ids of certifications that the archive lacks or must erase, scored by when to try next
    smoothcert:erasure:ID     the owner of a certification that was deleted, until the archive has erased it

The call that ends a certification also enters it here, so none is missed. A process that claims an id has LEASE_S
seconds; if it dies, another one claims the id again. A certification that is deleted while a process writes it is
erased when that process is done or its lease is over. All times are those of the server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from store import keys
from store.commands import Call, Command
from store.record import Record
from store.scripts.archival import ARCHIVE_CLAIM, ARCHIVE_DONE

LEASE_S = 60.0
"""Seconds for which a claimed id is not given to another process: more than a write may take."""
KEPT_S = 14 * 86_400
"""Seconds for which Redis keeps what the archive does not accept, as long as the record of one that waits."""
LATE_S = 3600.0
"""Seconds after which a certification is erased once more: a process that was stopped may have written it late."""


@dataclass(frozen=True)
class ArchiveClaim:
    """Something that this process has in hand."""

    certification: str
    owner: str
    """The owner of a certification that must be erased; empty for one that must be written."""
    late: bool
    """Whether it was erased before, and this is the last look."""


def enter(record: Record) -> list[Command]:
    """Let a certification that ends be written, at once by the clock of the server."""
    return [("ZADD", keys.ARCHIVAL, 0, record.id)]


def erase(certification: str, owner: str) -> list[Command]:
    """Let a certification be erased. A process that has it in hand keeps its lease."""
    return [("SET", keys.erasure(certification), owner), ("ZADD", keys.ARCHIVAL, "NX", 0, certification)]


def claim(*, most: int) -> Call:
    """Claim up to `most` ids that are due."""
    arguments = {"most": most, "lease": LEASE_S, "erasures": keys.erasure("")}
    return Call(ARCHIVE_CLAIM, (keys.ARCHIVAL,), (json.dumps(arguments),))


def claimed(answer: Sequence[tuple[bytes, bytes]]) -> list[ArchiveClaim]:
    """The claims in the answer to `claim`."""
    parted = [(certification.decode(), *erasure.decode().partition(" ")) for certification, erasure in answer]
    return [ArchiveClaim(certification, owner, bool(late)) for certification, owner, _, late in parted]


def written(record: Record) -> Call:
    """The archive has it: from now on Redis keeps it as long as results are kept."""
    ttl = max(1, round(record.expires_at - record.finished_at))  # both by the clock of the process that ended it
    shorter = {keys.record(record.id): 2 * ttl, keys.certificates(record.id): ttl, keys.arrivals(record.id): ttl}
    if record.archives_images:
        shorter[keys.images(record.id)] = 1
    return _done(record.id, {"erasing": False, "shorter": shorter})


def erased(claim: ArchiveClaim) -> Call:
    """The archive has erased it. It is erased once more after LATE_S."""
    pause = 0 if claim.late else LATE_S
    return _done(claim.certification, {"erasing": True, "again": pause, "value": f"{claim.owner} late"})


def _done(certification: str, arguments: dict[str, Any]) -> Call:
    names = (keys.ARCHIVAL, keys.erasure(certification), keys.STATISTICS)
    return Call(ARCHIVE_DONE, names, (certification, json.dumps(arguments)))


def dropped(certification: str) -> Call:
    """Forget an id for which Redis no longer has a record.

    If that was deleted meanwhile, it is erased next: an earlier attempt may have written some of it.
    """
    return _done(certification, {"erasing": False})


def again(certification: str, *, pause: float) -> list[Command]:
    """Let an id be claimed again after a pause; no effect if another process has settled it meanwhile."""
    return [
        ("smoothcert.due", keys.ARCHIVAL, certification, pause),
        ("HINCRBYFLOAT", keys.STATISTICS, "archive:retried", 1),
    ]
