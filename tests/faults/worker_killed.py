"""A worker is killed at a random moment: before it has begun, in the middle, or while it writes the end."""

from __future__ import annotations

import time
from random import Random

from tests.faults.service import Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    while True:
        posted = [witness.submit(service.exhibit.question(chance)) for _ in range(chance.randint(1, 3))]
        time.sleep(chance.choice((0.05, 1.5)) * chance.random())
        record = service.record(posted[0])
        if record is None or not record.ended:  # otherwise there is nothing to disturb
            break
    victim = (record and service.holder(record)) or chance.choice(service.workers)
    victim.kill()
    victim.wait()
