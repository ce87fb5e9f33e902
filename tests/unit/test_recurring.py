"""Warnings that recur while something is wrong are logged, but do not fill the log."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from app import recurring
from app.recurring import RecurringWarning
from app.redis import listener
from app.redis.client import connected
from app.redis.listener import Listener
from store.address import RedisAddress
from tests.service import free_port

NAME = "tests.recurring"


def test_a_warning_is_logged_once_until_it_changes_or_a_minute_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter((1000.0, 1001.0, 1002.0, 1061.0, 1062.0, 1063.0))
    monkeypatch.setattr(recurring, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    warning = RecurringWarning(logging.getLogger(NAME))
    for text in ("away", "away", "refused", "refused", "refused"):
        warning.warn(text)
    assert caplog.messages == ["away", "refused", "refused"]
    warning.end()
    warning.warn("refused")
    assert len(caplog.messages) == 4, "it was well in between"


def test_a_redis_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LOOK_SECONDS", 0.01)
    tries = 0

    class Counting(Listener):
        async def _receive(self) -> None:
            nonlocal tries
            tries += 1
            await super()._receive()

    async def listen() -> None:
        client = connected(RedisAddress.of(f"redis://127.0.0.1:{free_port()}/0"))
        async with Counting(client).listening():
            while tries < 4:
                await asyncio.sleep(0.01)
        await client.aclose()

    asyncio.run(asyncio.wait_for(listen(), 30))
    assert len([message for message in caplog.messages if "no messages from Redis" in message]) == 1
