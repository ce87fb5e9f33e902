"""The record of one certification, as it is kept in a Redis hash."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from smoothcert.certification import ENDED, Status
from store import shards

logger = logging.getLogger(__name__)

WITH_IMAGES = 2
"""The value of `archive` where the images are archived, too."""


@dataclass(frozen=True)
class Record:
    """What is known about a certification, except its images, checkpoints and certificates. Times are Unix times.

    Where the certification was divided, this is what is known about one of its shards (`store.shards`).
    """

    id: str
    owner: str
    status: Status
    pool: str
    queue: str
    """The queue that its job belongs to now."""
    ensemble: str
    digest: str
    """The digest of the ensemble that the request was accepted for."""
    request: str
    """A CertificationRequest as JSON, with every default filled in."""
    images: int
    seed: str
    created_at: float
    expires_at: float
    slow: int = 0
    """1 where the procedure says that it is slow to begin."""
    high: int = 0
    """1 where it is taken before those without priority."""
    size: int = 0
    """The bytes that it holds until it has ended: its images, and what its certificates are expected to take."""
    budget: int = 0
    """The most samples that it may draw."""
    idempotency: str = ""
    """The key in Redis of its Idempotency-Key, which expires with it."""
    webhook: str = ""
    """The address that is told about its end."""
    archive: int = 0
    """1 where its end is written to the archive, which keeps it until it is deleted; 2 where its images are, too."""
    api: str = ""
    """The name of the API process whose client waits for the end; '' where none did when it was accepted."""
    traceparent: str = ""
    """The W3C trace context of the request, where traces are on."""
    started_at: float = 0.0
    finished_at: float = 0.0
    deadline_at: float = 0.0
    """0 for none."""
    execution: str = ""
    """RQ's id of the execution under way, the only one that may write."""
    worker: str = ""
    done: int = 0
    """The number of finished certificates."""
    samples_at_start: int = 0
    """The samples that the execution under way began with."""
    samples_saved: int = 0
    """The samples of the last checkpoint."""
    deaths: int = 0
    """The workers that died with it in a row, without a new checkpoint in between."""
    burials: int = 0
    """The workers that died with it in all."""
    progress: str = ""
    """A Progress, as JSON."""
    error: str = ""
    """A Failure, as JSON."""
    shard: str = ""
    """The name of the shard; '' for the first one, which is all of a certification that was not divided."""
    places: str = ""
    """The places of the shard's images, as `shards.write_places` writes them; '' for all."""
    range: str = ""
    """The first sample and the one after the last, as `start-stop`, where the shard is a range of one image."""
    shards: int = 0
    """The number of shards that have not ended; 0 where the certification was not divided."""
    others: tuple[str, ...] = ()
    """The Progress of each of the other shards, as JSON."""

    @property
    def archives_images(self) -> bool:
        """Whether its images are to be written to the archive, because the request asks for it."""
        return self.archive == WITH_IMAGES

    @property
    def name(self) -> str:
        """The name under which it waits and RQ knows it."""
        return shards.job_name(self.id, self.shard)

    @property
    def place_list(self) -> list[int]:
        """The places of its images, in order."""
        return shards.read_places(self.places, self.images)

    @property
    def first_sample(self) -> int:
        """The first sample of a range."""
        return int(self.range.partition("-")[0])

    @property
    def divisible(self) -> bool:
        """Whether it may be divided, or was."""
        return self.images > 1 or self.budget >= shards.LEAST_RANGE

    @property
    def ended(self) -> bool:
        """Whether its status is final."""
        return self.status in ENDED

    @property
    def slow_to_begin(self) -> bool:
        """Whether a worker may need seconds before the first sample."""
        return self.slow > 0

    @property
    def advanced(self) -> bool:
        """Whether the execution under way has saved more samples than it began with."""
        return self.samples_saved > self.samples_at_start

    def missed(self, now: float) -> bool:
        """Whether its deadline passed before a worker began it."""
        return self.status == "queued" and 0 < self.deadline_at < now

    def status_at(self, now: float) -> Status:
        """The status that clients see: a final one becomes `expired` once the certificates are gone."""
        expired = self.ended and now > self.expires_at and not self.archive
        return "expired" if expired else self.status

    @classmethod
    def read(cls, data: Mapping[bytes, bytes], shard: str = "") -> Record | None:
        """Parse the hash; None where it has no id, which is an empty hash or the remains of a deleted record."""
        if b"id" not in data:
            return None
        return cls.parse({name.decode(): value.decode() for name, value in data.items()}, shard)

    @classmethod
    def salvage(cls, name: str, data: Mapping[bytes, bytes]) -> Record | None:
        """Parse the hash; None even if it is damaged, so that one record never stops the work on all others."""
        try:
            return cls.read(data, shards.parse_name(name)[1])
        except (ValueError, TypeError) as error:
            logger.error("the record cannot be read: %s", error, extra={"certification_id": name})
            return None

    @classmethod
    def parse(cls, data: Mapping[str, str], shard: str = "") -> Record:
        """Parse the hash as text; fields that a later version added are ignored."""
        others = tuple(text for name, text in data.items() if name.startswith("progress/"))
        if shard:
            data = _of_shard(data, shard)
        found = {name: kind(data[name]) for name, kind in _KINDS.items() if name in data}
        return cls(**{**found, "shard": shard, "others": others})

    def mapping(self) -> dict[str, str]:
        """The fields as text, for the hash."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self) if field.name in _KINDS}


_KINDS: dict[str, Any] = {
    name: kind if kind in (int, float) else str
    for name, kind in get_type_hints(Record).items()
    if name not in ("shard", "others")
}


def _of_shard(data: Mapping[str, str], shard: str) -> dict[str, str]:
    """The fields of a shard and those that it shares; the status is final where one of both has ended."""
    own = {name: data[field] for name in shards.OWN if (field := shards.field(name, shard)) in data}
    status = data["status"] if data["status"] in ENDED else own.get("status", "succeeded")
    shared = {name: value for name, value in data.items() if name not in shards.OWN}
    return {**shared, **own, "status": status, "queue": own.get("queue", data["queue"])}
