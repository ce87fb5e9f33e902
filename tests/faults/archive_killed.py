"""Every process is killed while the archive is written and erased: the API at each of its steps, a worker, Redis.

Nothing may be lost: each certification that ended is in the archive. Nothing may be doubled: it is there once. Nothing
that was deleted may come back.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from random import Random

import httpx2

from store import archival, keys
from tests.faults.exhibit import SMALL, Exhibit
from tests.faults.mortal import MortalApi
from tests.faults.service import Service, StuckError
from tests.faults.witness import Witness
from tests.support.api import Api

QUESTION = {"procedure": {"name": "predict", "n": 60}}
STEPS = 40
"""The number of steps of about two certifications, one of which is deleted."""
LIFE_S = 60.0
"""The seconds within which the API must have reached its step."""


class ArchivedService(Service):
    """A service with an archive whose API dies at one of its steps."""

    def __init__(self, folder: Path, exhibit: Exhibit) -> None:
        super().__init__(folder, exhibit)
        self.archive = folder / "archive"
        self.deleted: set[str] = set()
        self.ended: set[str] = set()
        """The certifications that must be in the archive."""

    def _make_api(self) -> Api:
        return MortalApi(self.server.url, self._folder, archive=self.archive)

    def arm(self, steps: int) -> None:
        """Let the API die after this number of further steps."""
        (self._folder / "dies_at").write_text(str(steps))

    def left_behind(self) -> list[str]:
        """What the service left behind, and what the archive lacks, has twice, or has although it was deleted."""
        return [*super().left_behind(), *self.amiss()]

    def amiss(self) -> list[str]:
        waiting = self.redis.zcount(keys.ARCHIVAL, "-inf", time.time() + archival.LATE_S / 2)
        found = [f"{waiting} certifications that the archive lacks or has to erase"] if waiting else []
        for certification in self.ended:
            documents = [*self.archive.glob(f"certifications/{certification}/*.json")]
            entries = [*self.archive.glob(f"owners/*/*-{certification}.json")]
            kept = [len(documents), len(entries)]
            if kept != [int(certification not in self.deleted)] * 2:
                found.append(f"{certification}: {kept[0]} documents and {kept[1]} entries")
            for document in documents:
                if hashlib.sha256(document.read_bytes()).hexdigest() not in document.name:
                    found.append(f"{certification}: its document is not whole")
        return found


def stage(folder: Path) -> ArchivedService:
    return ArchivedService(folder, SMALL)


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    assert isinstance(service, ArchivedService)
    assert service.api.process is not None
    service.arm(chance.randint(1, STEPS))
    others = chance.choice((None, None, "worker", "redis"))
    deadline, posted = time.monotonic() + LIFE_S, list[str]()
    while service.api.process.poll() is None:
        if time.monotonic() > deadline:
            raise StuckError(f"the API did not come to its step within {LIFE_S:g} s")
        if (made := witness.post(QUESTION)) is not None:
            posted.append(made)
        time.sleep(chance.uniform(0, 0.3))
        if others == "worker":
            victim = chance.choice(service.workers)
            victim.kill()
            victim.wait()
        elif others == "redis":
            service.server.kill()
            service.server.start()
        others = None
        _delete(service, witness, chance)
    service.api.process.wait()
    service.start_api()
    witness.await_ends()
    service.ended |= set(posted)


def _delete(service: ArchivedService, witness: Witness, chance: Random) -> None:
    """Occasionally delete a certification that ended in an earlier try."""
    candidates = sorted(service.ended - service.deleted)
    if not candidates or chance.random() < 0.5:
        return
    chosen = chance.choice(candidates)
    try:
        answer = httpx2.delete(f"{service.url}/v1/certifications/{chosen}", timeout=90)
    except httpx2.TransportError:
        service.ended.discard(chosen)  # it may or may not be deleted, so nothing is claimed about it
        witness.forget(chosen)
        return
    if answer.status_code == 204:
        service.deleted.add(chosen)
        witness.forget(chosen)
