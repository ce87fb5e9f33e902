"""The API is killed and started again while clients wait and listen."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import httpx2

from smoothcert.certificate import Certificate
from smoothcert.certification import ENDED, Certification
from tests.faults.service import Service, StuckError
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    made = len(service.records(since=0))
    with ThreadPoolExecutor(4) as clients:
        seen = [
            clients.submit(client, service, service.exhibit.question(chance))
            for client in (certifying, certifying, listening, waiting)
        ]
        time.sleep(chance.uniform(0, 2.0))
        service.kill_api()
        time.sleep(chance.uniform(0, 0.5))
        service.start_api()
    for each in seen:
        witness.saw(each.result())
    more = len(service.records(since=0)) - made
    witness.check(more == len(seen), f"{len(seen)} clients submitted, {more} certifications were made")


def certifying(service: Service, question: Mapping[str, Any]) -> list[Certificate]:
    """A client that calls `certify`."""
    with service.client() as client:
        return [*client.certify(service.exhibit.images, ensemble=service.exhibit.ensemble, **question)]


def listening(service: Service, question: Mapping[str, Any]) -> list[Certificate]:
    """A client that takes the certificates from the events and resumes by Last-Event-ID, so each must come once."""
    with service.client() as client:
        submitted = client.submit(service.exhibit.images, ensemble=service.exhibit.ensemble, **question)
        events = client.certifications.events(submitted.id)
        came = [event.data for event in events if isinstance(event.data, Certificate)]
    return sorted(came, key=lambda each: each.index)


def waiting(service: Service, question: Mapping[str, Any]) -> list[Certificate]:
    """A client without the SDK: it repeats the same POST under the same key until the certification has ended."""
    key, deadline = secrets.token_hex(16), time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            answer = service.post(service.body(question), **{"Idempotency-Key": key, "Prefer": "wait=30"})
            certification = Certification.model_validate_json(answer.raise_for_status().content)
            if certification.status in ENDED:
                return [*certification.certificates]
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise StuckError("a client that waits had no answer within 60 s")
