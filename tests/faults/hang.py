"""An image with which a forward pass never returns."""

from __future__ import annotations

from random import Random

from tests.faults.networks import ENDLESS
from tests.faults.poison import blamed_after_two_deaths
from tests.faults.service import Service
from tests.faults.witness import Witness

CRASHED = 70
"""The exit code of a worker that its own watchdog ended."""


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    deaths = len(service.deaths)
    blamed_after_two_deaths(service, witness, chance, value=ENDLESS)
    codes = service.deaths[deaths:]
    witness.check({*codes} == {CRASHED}, f"workers ended with {codes}, not by their own watchdog")
