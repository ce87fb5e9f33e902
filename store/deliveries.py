"""Webhooks: what is to be delivered because a certification has ended.

    smoothcert:deliveries     the ids of the certifications whose end is to be reported, scored by when to try next
    smoothcert:delivery:ID    the address, the owner, the body, and the number of attempts

The call that ends a certification also writes its delivery, so each end has exactly one. A process that claims a
delivery has LEASE_S seconds to send it; if it dies, the delivery is due again and another process sends it. So it
arrives at least once, and always with the same id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from smoothcert.certification import Status
from smoothcert.problem import Failure
from store import keys
from store.commands import Call, Command
from store.record import Record
from store.scripts.deliveries import CLAIM
from store.statistics import counted

LEASE_S = 60
"""Seconds for which a claimed delivery is not given to another process: several times as long as sending may take."""
KEPT_S = 7 * 86_400
"""Seconds after which a delivery is forgotten, whatever happened to it."""
BUSY_S = 0.25
"""Seconds after which a delivery is looked at again if its owner already has its share under way."""


@dataclass(frozen=True)
class Delivery:
    """One message to one receiver."""

    certification: str
    url: str
    owner: str
    body: str
    attempts: int
    """The number of attempts, this one included."""

    @property
    def id(self) -> str:
        """The same for every attempt, so that a receiver can drop doubles."""
        return f"msg_{self.certification}"


def enqueue(record: Record, status: Status, *, now: float, error: Failure | None) -> list[Command]:
    """Write the delivery of an end."""
    key = keys.delivery(record.id)
    body = _body(record, status, now, error)
    return [
        ("HSET", key, "url", record.webhook, "owner", record.owner, "body", body, "attempts", 0),
        ("EXPIRE", key, KEPT_S),
        ("ZADD", keys.DELIVERIES, now, record.id),
        ("ZREMRANGEBYSCORE", keys.DELIVERIES, "-inf", now - KEPT_S),  # of a service that sends no webhooks any more
    ]


def _body(record: Record, status: Status, now: float, error: Failure | None) -> str:
    """The payload in the form of Standard Webhooks: what happened, when, and where the certificates are."""
    data = {
        "id": record.id,
        "status": status,
        "url": f"/v1/certifications/{record.id}",
        "ensemble": record.ensemble,
        "images": record.images,
        "created_at": _time(record.created_at),
        "finished_at": _time(now),
        "error": error.model_dump() if error else None,
    }
    return json.dumps({"type": f"certification.{status}", "timestamp": _time(now), "data": data})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def claim(*, most: int, share: int, held: Mapping[str, int]) -> Call:
    """Claim up to `most` deliveries that are due; `share` of one owner, together with those that are `held`."""
    arguments = {
        "most": most,
        "share": share,
        "held": dict(held),
        "lease": LEASE_S,
        "pause": BUSY_S,
        "deliveries": keys.delivery(""),
    }
    return Call(CLAIM, (keys.DELIVERIES,), (json.dumps(arguments),))


def claimed(answer: Sequence[tuple[bytes, bytes, bytes, bytes, int]]) -> list[Delivery]:
    """The deliveries in the answer to `claim`."""
    return [
        Delivery(certification.decode(), url.decode(), owner.decode(), body.decode(), attempts)
        for certification, url, owner, body, attempts in answer
    ]


def done(delivery: Delivery, outcome: str) -> list[Command]:
    """Remove a delivery that arrived, or that is given up, and count it."""
    return [
        ("ZREM", keys.DELIVERIES, delivery.certification),
        ("DEL", keys.delivery(delivery.certification)),
        *counted({f"webhooks:{outcome}": 1}),
    ]


def again(delivery: Delivery, *, at: float) -> list[Command]:
    """Let a delivery be tried again; no effect if another process has delivered it meanwhile."""
    return [("ZADD", keys.DELIVERIES, "XX", at, delivery.certification), *counted({"webhooks:retried": 1})]
