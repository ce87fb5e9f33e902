"""All workers of a busy service are told to leave, and others take their place; no client may notice."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.faults.api_killed import certifying, listening
from tests.faults.service import PATIENCE_S, Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    with ThreadPoolExecutor(6) as clients:
        seen = [
            clients.submit(client, service, service.exhibit.question(chance))
            for client in (certifying, listening, certifying, listening, certifying, listening)
        ]
        time.sleep(chance.uniform(0.2, 1.5))
        leaving, service.workers = service.workers, [service.spawn() for _ in service.workers]
        for worker in leaving:
            worker.terminate()
        codes = [worker.wait(PATIENCE_S) for worker in leaving]
    for each in seen:
        witness.saw(each.result())
    witness.check(not any(codes), f"workers that were told to leave ended with {codes}")
