"""A worker is stopped for longer than a heartbeat lasts, and continues when another worker has its certification."""

from __future__ import annotations

import os
import signal
import time
from random import Random

from store import keys
from store.record import Record
from tests.faults.service import Process, Service
from tests.faults.witness import Witness


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    service.until(lambda: len(service.present()) == len(service.workers), "all workers")
    record, sleeper = stopped(service, witness, chance)
    try:
        await_another(service, record, until_its_end=chance.random() < 0.5)
    finally:
        woken_at, first = time.time(), end(service, record)
        os.kill(sleeper.pid, signal.SIGCONT)
    service.until(lambda: is_idle(service, record.worker, since=woken_at), "the sleeper to let go of it")
    witness.await_ends()
    witness.check(first in (None, end(service, record)), f"{record.id} has ended a second time")


def stopped(service: Service, witness: Witness, chance: Random) -> tuple[Record, Process]:
    """A certification under way, and the process that was stopped in the middle of it."""
    while True:
        certification = witness.submit(service.exhibit.question(chance))
        service.until(lambda: status(service, certification) != "queued", "its beginning")  # noqa: B023
        time.sleep(chance.uniform(0, 1.0))
        record = service.record(certification)
        sleeper = record and service.holder(record)
        if not record or not sleeper:
            continue
        os.kill(sleeper.pid, signal.SIGSTOP)
        if status(service, certification) == "running":
            return record, sleeper
        os.kill(sleeper.pid, signal.SIGCONT)  # the certification had ended before


def status(service: Service, certification: str) -> str:
    record = service.record(certification)
    return record.status if record else ""


def await_another(service: Service, held: Record, *, until_its_end: bool) -> None:
    """Wait until another worker has the certification or it has ended."""

    def seen() -> bool:
        record = service.record(held.id)
        assert record is not None
        return record.ended or (not until_its_end and record.execution not in ("", held.execution))

    service.until(seen, "another worker to take it")


def end(service: Service, held: Record) -> object:
    """Everything that Redis holds of the ended certification; None before its end."""
    record = service.record(held.id)
    return (record, service.redis.hgetall(keys.certificates(held.id))) if record and record.ended else None


def is_idle(service: Service, worker: str, *, since: float) -> bool:
    """Whether a worker has reported since then that it has nothing under way."""
    return any(each.name == worker and each.beat_at > since and each.live == 0 for each in service.present())
