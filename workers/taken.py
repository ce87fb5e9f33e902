"""What a worker finds under the names that it took from the queue."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from store import bookkeeping, checkpoints, division, keys, shards
from store.commands import Command
from store.record import Record
from workers.connection import RedisConnection
from workers.jobs import Stored

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakenJob:
    """What Redis holds under a name that was taken from the queue."""

    name: str
    """Of a certification or of a shard."""
    job: dict[bytes, bytes]
    """RQ's hash."""
    stored: Stored | None
    """Our own data; None where it is gone or cannot be read."""


def fetch(connection: RedisConnection, names: list[str]) -> list[TakenJob]:
    """What Redis holds under these names."""
    answers = iter(connection.run(command for each in names for command in _reading(each)))
    return [_taken(each, [next(answers) for _ in _reading(each)]) for each in names]


def _reading(name: str) -> list[Command]:
    certification, shard = shards.parse_name(name)
    return [
        ("HGETALL", bookkeeping.job_key(name)),
        ("HGETALL", keys.record(certification)),
        ("GET", keys.images(certification)),
        ("HGETALL", keys.checkpoints(certification)),
        ("HGETALL", keys.draws(certification)),
        ("HGETALL", keys.certificates(certification)),
        division.read_range(certification, shard),
    ]


def _taken(name: str, answers: list[Any]) -> TakenJob:
    """From the answers to the commands of `_reading`."""
    job, data, images, rests, draws, certificates, counted = answers
    try:
        record = Record.read(data, shards.parse_name(name)[1])
        saved = checkpoints.read(rests, draws)
        finished = {int(place): text for place, text in certificates.items()}
    except (ValueError, TypeError) as error:
        logger.error("the record cannot be read: %s", error, extra={"certification_id": name})
        return TakenJob(name, job, None)
    return TakenJob(name, job, None if record is None else Stored(record, images, saved, finished, counted))
