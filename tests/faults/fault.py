"""A fault, and what came of many tries of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.service import Service, StuckError
from tests.faults.witness import Witness

Stage = Callable[[Path], AbstractContextManager[Service]]
"""Makes a service in an empty folder."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong; `attempt` lets it happen once, at a moment that is left to chance."""

    name: str
    attempt: Callable[[Service, Witness, Random], None]
    tries: int
    """In all,"""
    share: int
    """and in the tests."""
    stage: Stage


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    fault: str
    tries: int
    certifications: int
    """That were answered with 202, or made by a client of the SDK."""
    lost: tuple[str, ...]
    """Each that did not end as it must,"""
    wrong: tuple[str, ...]
    """and everything else that should not be: another certificate, an end too many, an error that a client saw."""
    seconds: float


def run(
    fault: Fault,
    service: Service,
    *,
    tries: int,
    seed: int,
    tell: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Try it so many times; the same seed gives the same choices. `tell` is called with the number of each try."""
    chance, witness, began = Random(f"{seed} {fault.name}"), Witness(service), time.time()
    for number in range(1, tries + 1):
        tell(number)
        try:
            fault.attempt(service, witness, chance)
            witness.await_ends()
        except StuckError as error:
            witness.wrong.append(f"try {number}: {error}")
    witness.audit()
    made = len(service.records(since=began))
    return Outcome(fault.name, tries, made, tuple(witness.lost), tuple(witness.wrong), time.time() - began)
