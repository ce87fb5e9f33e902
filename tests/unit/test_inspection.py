"""The conclusions from what a server says about itself; `tests/service/test_server.py` asks real servers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from redis.exceptions import ConnectionError as DisconnectedError

from store.commands import Command
from store.inspection import ServerReport, UnusableServerError, inspection, refusal, run

GOOD: dict[str, Any] = {
    "redis_version": "7.2.4",
    "redis_mode": "standalone",
    "role": "master",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "maxmemory_policy": "noeviction",
    "connected_slaves": 1,
    "cluster_enabled": 0,
}


def inspected(
    *, script: Any = 1, config: Any = None, ahead: float | Exception = 0.0, replicas: int = 0, **info: Any
) -> ServerReport:
    """The report of a server with these answers, and good ones otherwise; `None` hides a field."""
    reported = {name: value for name, value in {**GOOD, **info}.items() if value is not None}

    def ask(commands: Sequence[Command]) -> list[Any]:
        if commands == (("TIME",),):
            now = time.time()
            return [ahead if isinstance(ahead, Exception) else (int(now + ahead), int((now + ahead) % 1 * 1e6))]
        assert [command[0] for command in commands] == ["INFO", "EVAL", "CONFIG GET"]
        return [reported, script, {"appendfsync": "always"} if config is None else config]

    return run(inspection(replicas=replicas), ask)


def statuses(report: ServerReport) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def test_a_good_server_has_no_warnings() -> None:
    report = inspected(replicas=1)
    assert set(statuses(report).values()) == {"ok"}
    assert list(statuses(report)) == [
        "role", "version", "scripts", "append_only_file", "fsync", "eviction", "clock", "replicas"
    ]  # fmt: skip
    report.require_usable(strict=True)


@pytest.mark.parametrize(
    ("name", "answers", "word"),
    [
        ("role", {"role": "slave"}, "replica"),
        ("version", {"redis_version": "6.2.14"}, "older than Redis 7.0"),
        ("append_only_file", {"aof_enabled": 0}, "appendonly yes"),
        ("append_only_file", {"aof_last_write_status": "err"}, "could not write"),
        ("fsync", {"config": {"appendfsync": "everysec"}}, "appendfsync everysec, not always"),
        ("eviction", {"maxmemory_policy": "allkeys-lru"}, "allkeys-lru, not noeviction"),
        ("clock", {"ahead": -7.0}, "-7.0 s"),
        ("replicas", {"replicas": 2}, "1 replicas are connected, and 2 must confirm"),
    ],
)
def test_what_may_lose_something_is_a_warning_that_a_strict_service_refuses(
    name: str, answers: dict[str, Any], word: str
) -> None:
    report = inspected(**answers)
    (warning,) = report.warnings
    assert warning.name == name
    assert word in warning.detail
    report.require_usable(strict=False)
    with pytest.raises(UnusableServerError, match="SMOOTHCERT_STRICT is set") as refused:
        report.require_usable(strict=True)
    assert word in str(refused.value)


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("role", {"role": None}),
        ("version", {"redis_version": None}),
        ("version", {"redis_version": "unstable"}),
        ("scripts", {"script": ResponseError("BUSY Redis is busy running a script")}),
        ("append_only_file", {"aof_enabled": None}),
        ("fsync", {"config": NoPermissionError("no permissions")}),
        ("fsync", {"config": ResponseError("unknown command 'CONFIG'")}),
        ("eviction", {"maxmemory_policy": None}),
        ("clock", {"ahead": NoPermissionError("no permissions")}),
    ],
)
def test_what_a_managed_server_hides_is_unverified_and_passes(name: str, answers: dict[str, Any]) -> None:
    report = inspected(**answers)
    assert {each for each, status in statuses(report).items() if status != "ok"} == {name}
    assert statuses(report)[name] == "unverified"
    report.require_usable(strict=True)


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"redis_mode": "cluster"}, "cluster, which is not supported"),
        ({"redis_mode": None, "cluster_enabled": 1}, "cluster, which is not supported"),
        ({"redis_mode": "sentinel"}, r"must be redis\+sentinel://"),
        ({"script": ResponseError("ERR Error compiling script: unexpected symbol near '#'")}, "version 7.0 or later"),
        ({"script": ResponseError("unknown command 'EVAL'")}, "version 7.0 or later"),
        ({"script": NoPermissionError("no permissions to run eval")}, "docs/operation.md has the rights"),
    ],
)
def test_a_server_that_the_service_cannot_work_with_is_refused_in_any_case(
    answers: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UnusableServerError, match=sentence):
        inspected(**answers).require_usable(strict=False)


def test_a_server_that_is_away_is_not_refused() -> None:
    assert refusal(DisconnectedError("Error 111 connecting to h:1. Connection refused."), "h:1") is None
    assert refusal(TimeoutError("timed out"), "h:1") is None
    sentence = refusal(AuthenticationError("invalid username-password pair or user is disabled."), "h:1")
    assert sentence is not None
    assert sentence.startswith("Redis at h:1 does not accept the user and the password: invalid username-password pair")
