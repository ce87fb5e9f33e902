"""Certifications as JSON, assembled from texts that are JSON already.

Redis holds certificates as the JSON that a worker wrote. To parse them only to serialise them again would cost more
than the rest of a request. The tests in `tests/service` parse these answers with the wire types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from app.redis.snapshot import Snapshot
from smoothcert.certification import Progress
from store.record import Record

PATH = "/v1/certifications"


def certification(snapshot: Snapshot, *, now: float) -> str:
    """A `Certification` with the certificates that are finished, in the order of the images."""
    texts = (snapshot.certificates[index] for index in sorted(snapshot.certificates))
    return f'{{{_fields(snapshot.record, snapshot.position, now)},"certificates":[{",".join(texts)}]}}'


def summary(record: Record, position: int | None, *, now: float) -> str:
    """A `CertificationSummary`, which has no certificates."""
    return f"{{{_fields(record, position, now)}}}"


def page(summaries: Iterable[str], next_cursor: str | None) -> str:
    """A `CertificationPage`."""
    return f'{{"data":[{",".join(summaries)}],"next_cursor":{json.dumps(next_cursor)}}}'


def progress(record: Record) -> str:
    """A `Progress`, the sum over all shards; all zeros until a worker has reported one."""
    counts = '"samples":0,"evaluations":0,"certified":0,"images":[]'
    nothing = f'{{"images_done":0,"images_total":{record.images},{counts}}}'
    if not record.others:
        return record.progress or nothing
    parts = (Progress.model_validate_json(text) for text in (record.progress or nothing, *record.others))
    return Progress.sum_of(parts).model_dump_json()


def location(certification: str) -> str:
    """The path of a certification."""
    return f"{PATH}/{certification}"


def _fields(record: Record, position: int | None, now: float) -> str:
    here = location(record.id)
    return (
        f'"id":"{record.id}","status":"{record.status_at(now)}",'
        f'"created_at":{_time(record.created_at)},"started_at":{_time(record.started_at)},'
        f'"finished_at":{_time(record.finished_at)},"expires_at":{_time(_expiry(record))},'
        f'"queue_position":{json.dumps(position)},"ensemble":{json.dumps(record.ensemble)},'
        f'"request":{record.request},"progress":{progress(record)},"error":{record.error or "null"},'
        f'"urls":{{"self":"{here}","events":"{here}/events","cancel":"{here}/cancel"}}'
    )


def _expiry(record: Record) -> float:
    """When the certificates are deleted; 0 for those that the archive keeps."""
    return 0.0 if record.archive and record.ended else record.expires_at


def _time(seconds: float) -> str:
    return f'"{datetime.fromtimestamp(seconds, UTC).isoformat()}"' if seconds else "null"
