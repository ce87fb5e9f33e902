"""A process tells its supervisor that it is ready."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.local.notice import Telling
from tests.service import eventually
from workers.notice import tell_ready

TELL = "import sys; sys.path.insert(0, {root!r}); from workers.notice import tell_ready; tell_ready()"


def test_a_worker_tells_its_supervisor_that_it_is_ready() -> None:
    code = TELL.format(root=str(Path(__file__).parents[2]))
    telling, silent = (
        Telling([sys.executable, "-c", f"{each}; import time; time.sleep(60)"], environment=os.environ)
        for each in (code, "pass")
    )
    try:
        eventually(lambda: telling.ready, "the notice")
        assert not silent.ready, "each has a socket of its own"
    finally:
        telling.kill()
        silent.kill()
    assert telling.ready


@pytest.mark.parametrize("address", ["/nowhere/at/all", "@nobody-listens-here"])
def test_a_supervisor_that_does_not_listen_stops_no_worker(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    tell_ready()
    assert "cannot be told" in caplog.text
