"""A fault, and the outcome of many tries of it."""

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
"""A function that makes a service in an empty folder."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong; `attempt` makes it happen once, at a random moment."""

    name: str
    attempt: Callable[[Service, Witness, Random], None]
    tries: int
    """The number of tries of `python -m tests.faults`."""
    share: int
    """The number of tries in the test suite."""
    stage: Stage


@dataclass(frozen=True)
class Outcome:
    """What was lost and what was wrong in all tries of a fault."""

    fault: str
    tries: int
    certifications: int
    """The certifications that were answered with 202 or made by a client of the SDK."""
    lost: tuple[str, ...]
    """The certifications that did not end as they must."""
    wrong: tuple[str, ...]
    """Everything else that must not happen: another certificate, one end too many, an error that a client saw."""
    seconds: float


def run(
    fault: Fault,
    service: Service,
    *,
    tries: int,
    seed: int,
    tell: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Try a fault `tries` times; the same seed gives the same choices. `tell` is called with the number of each try."""
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
