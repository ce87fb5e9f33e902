"""The supervisor of several workers: signals reach the workers, and they leave when it is killed."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from app.local.embedded import EmbeddedServer
from store.bookkeeping import worker_key
from tests.faults.exhibit import SMALL, small_zoo
from tests.service import eventually
from tests.support.pool import Pool
from workers.fleet import PAUSE_S, Fleet


class Child:
    """A worker process that has ended at once, or that runs until a signal comes."""

    def __init__(self, returncode: int | None) -> None:
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, _: int) -> None:
        self.returncode = 0

    def terminate(self) -> None:
        self.returncode = 0


@pytest.mark.parametrize("moment", ["pause", "start"])
def test_a_signal_between_two_lives_of_a_worker_is_not_lost(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    lives = iter([Child(70), Child(None)])

    def popen(*_: object, **__: object) -> Child:
        child = next(lives)
        if moment == "start" and child.returncode is None:
            os.kill(os.getpid(), signal.SIGTERM)
        return child

    def sleep(seconds: float) -> None:
        if moment == "pause" and seconds == PAUSE_S:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("workers.fleet.subprocess.Popen", popen)
    monkeypatch.setattr("workers.fleet.time.sleep", sleep)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        Fleet(["cpu"]).supervise()  # this returns once all workers have left
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_workers_leave_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "server") as server:
        pool = Pool(server, small_zoo(tmp_path), "fleet", devices="cpu,cpu", **SMALL.settings)
        fleet = pool.start()
        eventually(lambda: len(pool.workers()) == 2, "both workers")
        pids = [int(pool.redis.hget(worker_key(name.decode()), "pid")) for name in pool.workers()]
        try:
            fleet.kill()
            fleet.wait()
            eventually(lambda: not pool.workers(), "both to leave")
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
