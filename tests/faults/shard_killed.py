"""A worker that has a shard of a certification is killed; what other workers have or have finished is kept."""

from __future__ import annotations

import time
from random import Random

from store import keys
from store.record import Record
from tests.faults.service import Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    while True:
        posted = witness.submit(service.exhibit.question(chance))
        service.until(lambda: _ended(service, posted) or _shards(service, posted), "a shard")  # noqa: B023
        time.sleep(chance.random())
        shards = _shards(service, posted)
        if shards:  # otherwise it has ended, and there is nothing to disturb
            break
    before = service.redis.hgetall(keys.certificates(posted))
    victim = service.holder(chance.choice(shards))
    if victim is not None:
        victim.kill()
        victim.wait()
    service.until(lambda: _ended(service, posted), "the end")
    after = service.redis.hgetall(keys.certificates(posted))
    same = {place: after.get(place) for place in before} == before
    witness.check(same, f"{posted}: certificates were made again although they were finished")


def _ended(service: Service, certification: str) -> bool:
    record = service.record(certification)
    return record is None or record.ended


def _shards(service: Service, certification: str) -> list[Record]:
    """The shards, except the first, that a worker has under way."""
    data: dict[bytes, bytes] = service.redis.hgetall(keys.record(certification))
    names = [field.decode().partition("/")[2] for field in data if field.startswith(b"status/")]
    found = [record for name in names if (record := Record.read(data, name))]
    return [record for record in found if record.status == "running"]
