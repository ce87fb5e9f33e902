"""While Redis is away, a worker says so, but not with every try."""

from __future__ import annotations

import logging

import pytest
import redis

from workers import connection
from workers.connection import REMIND_S, RETRY_S, until_answered


def test_the_log_repeats_itself_now_and_then_and_says_what_is_new(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(connection.time, "sleep", sleep)
    monkeypatch.setattr(connection.time, "monotonic", lambda: now)
    refused = round(2.5 * REMIND_S / RETRY_S)
    answers = iter([*["refused"] * refused, *["loading"] * 3, None])

    def ask() -> str:
        if error := next(answers):
            raise redis.exceptions.ConnectionError(error)
        return "answer"

    with caplog.at_level(logging.WARNING):
        assert until_answered(ask) == "answer"
    assert [record.args[0].args[0] for record in caplog.records] == [*["refused"] * 3, "loading"]
