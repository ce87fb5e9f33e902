"""A certification as it is told: JSON put together from texts that are JSON already.

Certificates are stored as they were written; to read them here only to write them again would cost more than all the
rest of a request. `tests/service` reads the answers with the wire types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from app.redis.queue import Found
from store.record import Record

PATH = "/v1/certifications"


def certification(found: Found, *, now: float) -> str:
    """A `Certification`: with the certificates that are finished, in the order of the images."""
    texts = (found.certificates[index] for index in sorted(found.certificates))
    return f'{{{_fields(found.record, found.position, now)},"certificates":[{",".join(texts)}]}}'


def summary(record: Record, position: int | None, *, now: float) -> str:
    """A `CertificationSummary`: without them."""
    return f"{{{_fields(record, position, now)}}}"


def page(summaries: Iterable[str], next_cursor: str | None) -> str:
    """A `CertificationPage`."""
    return f'{{"data":[{",".join(summaries)}],"next_cursor":{json.dumps(next_cursor)}}}'


def progress(record: Record) -> str:
    """A `Progress`; before a worker has told of any, there is none."""
    nothing = f'{{"images_done":0,"images_total":{record.images},"samples":0,"evaluations":0,"images":[]}}'
    return record.progress or nothing


def location(certification: str) -> str:
    """Where a certification is found."""
    return f"{PATH}/{certification}"


def _fields(record: Record, position: int | None, now: float) -> str:
    here = location(record.id)
    return (
        f'"id":"{record.id}","status":"{record.status_at(now)}",'
        f'"created_at":{_time(record.created_at)},"started_at":{_time(record.started_at)},'
        f'"finished_at":{_time(record.finished_at)},"expires_at":{_time(record.expires_at)},'
        f'"queue_position":{json.dumps(position)},"ensemble":{json.dumps(record.ensemble)},'
        f'"request":{record.request},"progress":{progress(record)},"error":{record.error or "null"},'
        f'"urls":{{"self":"{here}","events":"{here}/events","cancel":"{here}/cancel"}}'
    )


def _time(seconds: float) -> str:
    return f'"{datetime.fromtimestamp(seconds, UTC).isoformat()}"' if seconds else "null"
