"""An image for which there is never enough memory, however small the batch."""

from __future__ import annotations

from random import Random

from tests.faults.networks import HUNGRY, flat
from tests.faults.service import Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    deaths = len(service.deaths)
    witness.submit({"procedure": "fixed"}, (flat(HUNGRY),), end="engine_failed")
    witness.await_ends()
    for _ in service.workers:  # most likely each worker gets one
        witness.submit(service.exhibit.question(chance))
    witness.await_ends()
    service.tend()
    witness.check(len(service.deaths) == deaths, f"workers ended: {service.deaths[deaths:]}")
