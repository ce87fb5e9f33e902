"""An image that crashes every process that looks at it."""

from __future__ import annotations

from random import Random

from tests.faults.networks import DEADLY, flat
from tests.faults.service import Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    blamed_after_two_deaths(service, witness, chance, value=DEADLY)


def blamed_after_two_deaths(service: Service, witness: Witness, chance: Random, *, value: float) -> None:
    """An image of this value fails with a reason, and certifications beside and after it are answered."""
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    deaths, question = len(service.deaths), service.exhibit.question
    witness.submit(question(chance))
    witness.submit({"procedure": "fixed"}, (flat(value),), end="worker_died")
    witness.submit(question(chance))
    witness.await_ends()
    witness.submit(question(chance))
    witness.await_ends()
    service.tend()
    witness.check(len(service.deaths) - deaths == 2, f"workers ended: {service.deaths[deaths:]}; exactly two must")
