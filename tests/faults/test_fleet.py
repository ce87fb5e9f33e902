"""The supervisor of several workers is killed: they leave, too."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from app.embedded import EmbeddedServer
from tests.faults.exhibit import SMALL, small_zoo
from tests.service import eventually
from tests.service.pool import Pool


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_workers_leave_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "server") as server:
        pool = Pool(server, small_zoo(tmp_path), "fleet", devices="cpu,cpu", **SMALL.settings)
        fleet = pool.start()
        eventually(lambda: len(pool.workers()) == 2, "both workers")
        pids = [int(pool.redis.hget(f"rq:worker:{name.decode()}", "pid")) for name in pool.workers()]
        try:
            fleet.kill()
            fleet.wait()
            eventually(lambda: not pool.workers(), "both to leave")
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
