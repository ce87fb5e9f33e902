"""Redis is killed while clients submit and workers work, and starts again on its append-only file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from tests.faults.service import Service
from tests.faults.witness import Witness

CLIENTS = 4
"""The clients that submit at random moments around the kill."""


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    deaths = len(service.deaths)

    def submit(pause: float, question: Mapping[str, Any]) -> None:
        time.sleep(pause)
        witness.post(question)

    with ThreadPoolExecutor(CLIENTS) as clients:
        plans = [(chance.uniform(0, 1.5), service.exhibit.question(chance)) for _ in range(CLIENTS)]
        posted = [clients.submit(submit, *each) for each in plans]
        time.sleep(chance.uniform(0, 1.5))
        service.server.kill()
        time.sleep(chance.uniform(0, 1.0))
        service.server.start()
    for each in posted:
        each.result()
    witness.submit(service.exhibit.question(chance))  # the service works again without help
    witness.await_ends()
    witness.check(len(service.deaths) == deaths, f"workers ended: {service.deaths[deaths:]}")
