"""Request headers with a meaning for operations: how they are read, and how the OpenAPI document describes them."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request

from app.http.errors import ProblemError, invalid
from smoothcert.attestation.envelope import MEDIA_TYPE
from smoothcert.errors import shown

LONGEST_WAIT = 60
"""Seconds that a client may wait for an answer; proxies often close a connection after a minute of silence."""
EVENT_STREAM = "text/event-stream"
ATTESTATION = MEDIA_TYPE
END = "end"
"""The id of the last event of a stream."""

_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,4000})"?', re.IGNORECASE)
_KEY = re.compile(r"[\x20-\x7e]{1,255}")


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


PREFER = _parameter(
    "Prefer",
    f"`wait=n` (RFC 7240): answer when the certification has ended, or after n seconds, at most {LONGEST_WAIT}. "
    "A malformed preference is ignored; `Preference-Applied` states the wait that was granted.",
    {"type": "string", "default": "wait=0", "example": "wait=30"},
)


def wait_seconds(request: Request) -> int | None:
    """The preferred wait in seconds; None if there is none, or a malformed one, which RFC 7240 says to ignore."""
    for preference in ",".join(request.headers.getlist("prefer")).split(","):
        token = preference.partition(";")[0].strip()
        if token.partition("=")[0].strip().lower() == "wait":
            match = _WAIT.fullmatch(token)
            return min(int(match[1]), LONGEST_WAIT) if match else None
    return None


IDEMPOTENCY_KEY = _parameter(
    "Idempotency-Key",
    "Makes it safe to repeat a request: the same key with the same request returns the same certification, with the "
    "header `Idempotency-Replayed: true`; with another request it is a 409. The key is remembered for twice the time "
    "for which results are kept: once the certification has expired or was deleted, the answer is a 410, and nothing "
    "is drawn again.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x20-\x7e]*$", "example": "8e03978e-40d5"},
)


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise invalid("Idempotency-Key", f"must be 1 to 255 printable ASCII characters, got {shown(key)}")
    return key


LAST_EVENT_ID = _parameter(
    "Last-Event-ID",
    "The id of the last event received: certificates that were sent before are not sent again. For the id of "
    f"`completed`, which is `{END}`, the answer is 204, so that a browser does not reconnect.",
    {"type": "string", "pattern": rf"^(\d{{1,9}}|{END})$", "default": "0"},
)


def last_event_id(request: Request) -> str:
    """The number of certificates received, as digits, or END."""
    value = request.headers.get("last-event-id", "0")
    if value != END and not re.fullmatch(r"[0-9]{1,9}", value):
        raise invalid("Last-Event-ID", f"must be the id of an event of this stream, got {shown(value)}")
    return value


def prefers_attestations(request: Request) -> bool:
    """Whether the Accept header names attestations, and nothing that it names is preferred to them."""
    weights = _weights(request.headers.get("accept", ""))
    wanted = weights.get(ATTESTATION, 0.0)
    return wanted > 0 and wanted >= max(weights.values())


def require_event_stream(request: Request) -> None:
    """Refuse a request whose Accept header (RFC 9110) excludes event streams."""
    accepted = request.headers.get("accept", "*/*")
    weights = _weights(accepted)
    # The most specific media range that the header names decides.
    chosen = next((weights[media] for media in (EVENT_STREAM, "text/*", "*/*") if media in weights), 0.0)
    if not chosen:
        raise ProblemError("not_acceptable", f"the answer is {EVENT_STREAM}, but the request accepts {shown(accepted)}")


def _weights(accepted: str) -> dict[str, float]:
    """The weight of each media range that an Accept header names."""
    ranges = ([part.strip().lower() for part in each.split(";")] for each in accepted.split(","))
    return {media: _weight(parameters) for media, *parameters in ranges}


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return float(value) if re.fullmatch(r"\s*[01](\.\d{0,3})?\s*", value) else 1.0
    return 1.0
