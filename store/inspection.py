"""What a server says of itself: whether it keeps what it acknowledges, and whether the service can work with it at all.

INFO, TIME and a script tell most of it. CONFIG GET is asked as well, because INFO does not tell when the append-only
file is synced, but nothing depends on it: managed servers forbid it, and what they hide is `unverified`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from smoothcert.errors import SmoothcertError
from smoothcert.published import RedisCheck
from store.commands import Command
from store.scripts.first_line import READING

OLDEST = (7, 0)
"""The first version whose scripts can say what happens where the server is full."""
CLOCKS_DIFFER_S = 2.0
"""Seconds between two clocks that are a warning: heartbeats and deadlines are judged by each machine's own clock."""
LOOKS = 3
"""The number of looks at the clock; the smallest difference counts, because a slow answer looks like one."""
NO_SCRIPTS = ("compiling", "unknown command")
"""Words in the errors of servers that can never run the scripts; a server with another error may only be busy."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""The reasons that OpenSSL gives for an answer that is not TLS."""
QUESTIONS: tuple[Command, ...] = (
    ("INFO",),
    ("EVAL", f"{READING}return 1", 0),
    ("CONFIG GET", "appendfsync"),
)

Inspection = Generator[Sequence[Command], Sequence[Any], "ServerReport"]
"""Commands to send, each time in one round trip; it is sent the answers, in which an error is an exception."""


class UnusableServerError(SmoothcertError):
    """A server that the service cannot work with, or must not according to its settings."""


@dataclass(frozen=True)
class ServerReport:
    """What an inspection of a server found."""

    checks: tuple[RedisCheck, ...]
    clock_difference: float
    """The seconds by which the clock of the server is ahead of ours."""
    unusable: str = ""
    """Why the service cannot work with this server at all; empty if it can."""

    @property
    def warnings(self) -> tuple[RedisCheck, ...]:
        return tuple(check for check in self.checks if check.status == "warning")

    def require_usable(self, *, strict: bool) -> None:
        """Raise UnusableServerError if the service cannot work with the server, or if `strict` and there are warnings.

        What is unverified passes: an operator who is strict may have a managed server that hides its settings.
        """
        if self.unusable:
            raise UnusableServerError(self.unusable)
        if strict and self.warnings:
            found = "; ".join(check.detail.rstrip(".") for check in self.warnings)
            raise UnusableServerError(f"SMOOTHCERT_STRICT is set, and Redis does not suffice: {found}")


def inspection(*, replicas: int = 0) -> Inspection:
    """Inspect a server; `replicas` is the number that must confirm what is accepted."""
    differences = []
    for _ in range(LOOKS):
        before = time.time()
        (answer,) = yield (("TIME",),)
        if not isinstance(answer, Exception):
            seconds, microseconds = answer
            differences.append(seconds + microseconds / 1e6 - (before + time.time()) / 2)
    info, script, config = yield QUESTIONS
    known: Mapping[str, Any] = info if isinstance(info, dict) else {}
    policy = config.get("appendfsync") if isinstance(config, dict) else None
    difference = min(differences, key=abs, default=None)
    checks = [
        _role(known),
        _version(known),
        _scripts(script),
        *_durability(known, policy),
        _eviction(known),
        _clock(difference),
        *([_replicas(known, replicas)] if replicas else []),
    ]
    return ServerReport(tuple(checks), difference or 0.0, _unusable(known, script))


def run(inspect: Inspection, ask: Callable[[Sequence[Command]], Sequence[Any]]) -> ServerReport:
    """Drive an inspection by a function that sends commands."""
    commands = next(inspect)
    while True:
        try:
            commands = inspect.send(ask(commands))
        except StopIteration as end:
            report: ServerReport = end.value
            return report


def _unusable(info: Mapping[str, Any], script: Any) -> str:
    mode = info.get("redis_mode") or info.get("server_mode")  # the latter is Valkey's
    if mode == "cluster" or info.get("cluster_enabled"):
        return (
            "Redis runs as a cluster, which is not supported: a certification has keys in several slots; "
            "use one server, or a primary with replicas and Sentinels"
        )
    if mode == "sentinel":
        return "the address is that of a Sentinel: the URL must be redis+sentinel://HOST:PORT/SERVICE"
    if isinstance(script, NoPermissionError):
        return "the user of Redis must not run scripts: docs/operation.md has the rights that it needs"
    if isinstance(script, ResponseError) and any(sign in str(script) for sign in NO_SCRIPTS):
        return f"Redis must be version {'.'.join(map(str, OLDEST))} or later: it cannot run scripts ({_brief(script)})"
    return ""


def _check(name: str, status: Literal["ok", "warning", "unverified"], detail: str) -> RedisCheck:
    return RedisCheck(name=name, status=status, detail=detail)


def _hidden(name: str, what: str) -> RedisCheck:
    return _check(name, "unverified", f"The server does not tell {what}.")


def _role(info: Mapping[str, Any]) -> RedisCheck:
    match info.get("role"):
        case None:
            return _hidden("role", "whether it is a primary")
        case "master":
            return _check("role", "ok", "The server is a primary.")
    return _check("role", "warning", "The server is a replica, which refuses every write.")


def _version(info: Mapping[str, Any]) -> RedisCheck:
    oldest = ".".join(map(str, OLDEST))
    try:
        version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    except (KeyError, ValueError):
        return _hidden("version", "its version")
    if version < OLDEST:
        return _check("version", "warning", f"The server is older than Redis {oldest}.")
    return _check("version", "ok", f"The server is compatible with Redis {oldest} or later.")


def _scripts(answer: Any) -> RedisCheck:
    if isinstance(answer, Exception):
        return _check("scripts", "unverified", "The server did not run a script when it was asked.")
    return _check("scripts", "ok", "The server runs scripts.")


def _durability(info: Mapping[str, Any], policy: str | None) -> list[RedisCheck]:
    enabled = info.get("aof_enabled")
    if enabled is None:
        file = _hidden("append_only_file", "whether it writes an append-only file (appendonly yes)")
    elif not enabled:
        detail = "The server writes no append-only file: what was accepted is lost when it ends (appendonly yes)."
        return [_check("append_only_file", "warning", detail)]
    elif info.get("aof_last_write_status", "ok") != "ok":
        file = _check("append_only_file", "warning", "The server could not write to its append-only file.")
    else:
        file = _check("append_only_file", "ok", "The server writes an append-only file.")
    if policy is None:
        sync = _hidden("fsync", "when it syncs that file (appendfsync always)")
    elif policy == "always":
        sync = _check("fsync", "ok", "The server syncs that file before it answers.")
    else:
        detail = f"The server syncs that file after it has answered (appendfsync {policy}, not always)."
        sync = _check("fsync", "warning", f"{detail} What was accepted last is lost when its machine fails.")
    return [file, sync]


def _eviction(info: Mapping[str, Any]) -> RedisCheck:
    policy = info.get("maxmemory_policy")
    if policy is None:
        return _hidden("eviction", "what it does when it is full (maxmemory-policy noeviction)")
    if policy != "noeviction":
        detail = f"A full server deletes keys, those of accepted work too (maxmemory-policy {policy}, not noeviction)."
        return _check("eviction", "warning", detail)
    return _check("eviction", "ok", "A full server deletes nothing.")


def _clock(difference: float | None) -> RedisCheck:
    if difference is None:
        return _hidden("clock", "its time")
    if abs(difference) > CLOCKS_DIFFER_S:
        detail = f"The clock of the server is {difference:+.1f} s from that of this machine: set one of them."
        return _check("clock", "warning", detail)
    return _check("clock", "ok", f"The clocks agree within {CLOCKS_DIFFER_S:g} s.")


def _replicas(info: Mapping[str, Any], wanted: int) -> RedisCheck:
    connected = info.get("connected_slaves")
    if connected is None:
        return _hidden("replicas", "how many replicas it has")
    if connected < wanted:
        detail = f"{connected} replicas are connected, and {wanted} must confirm what is accepted."
        return _check("replicas", "warning", f"{detail} New work is refused.")
    return _check("replicas", "ok", "Enough replicas are connected.")


def refusal(error: BaseException, place: str) -> str | None:
    """The sentence for an error that no second try mends: a wrong password, user, certificate or database.

    None for a server that is merely away.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"{cause.verify_message}; SMOOTHCERT_REDIS_CA_FILE must be that of the authority which signed it"
            return f"the certificate of Redis at {place} is not accepted: {reason}"
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            if cause.reason in NO_TLS:
                return without_tls(place)
            reason = (cause.reason or "unknown reason").lower().replace("_", " ")
            return f"Redis at {place} does not agree to TLS: {reason}; see SMOOTHCERT_REDIS_CERTIFICATE_FILE"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, AuthenticationError | NoPermissionError):
        wrong = "SMOOTHCERT_REDIS_URL has the user, SMOOTHCERT_REDIS_PASSWORD_FILE or the URL the password"
        reason = "it demands a password" if "authenticat" in str(error).lower() else _brief(error)
        return f"Redis at {place} does not accept the user and the password: {reason}; {wrong}"
    if isinstance(error, ResponseError):
        return f"Redis at {place} refuses the connection: {_brief(error)}"
    return None


def without_tls(place: str) -> str:
    """The sentence for a server that does not speak TLS although its URL says so."""
    return f"Redis at {place} does not speak TLS: its URL must begin with redis, not rediss"


def absence(error: BaseException, *, tls: bool | None) -> str:
    """Why a server is away, with a word about TLS where that may be the reason; None for a socket, which has none.

    A server that speaks nothing but TLS cuts the connection. For one without TLS, see `store.plaintext`.
    """
    if tls is False and isinstance(error, RedisConnectionError) and _is_cut(error):
        return f"{error}; a server that speaks TLS alone looks like this, and its URL is rediss://, not redis://"
    return str(error)


def _is_cut(error: BaseException) -> bool:
    return isinstance(error.__cause__ or error.__context__, ConnectionResetError) or "closed by server" in str(error)


def _brief(error: RedisError) -> str:
    """The first line of an error, without the full stop at its end."""
    return str(error).splitlines()[0].rstrip(".")[:200] if str(error) else type(error).__name__
