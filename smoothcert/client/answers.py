"""Responses of the service: the model that one holds, or the error that it stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from smoothcert.client.errors import (
    BY_CODE,
    BY_STATUS,
    SERVER_ERRORS,
    AnswerError,
    ClientError,
    ServerError,
    VersionError,
)
from smoothcert.client.retries import retry_after
from smoothcert.errors import explain
from smoothcert.problem import Problem

MOST_EXPLAINED = 500
"""The most characters of a VersionError's explanation: a response can be wrong in a thousand places."""

Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], text: str | bytes) -> Model:
    """Parse a response; VersionError if it is not understood.

    Fields that a later version of the service has added are ignored, except in a certificate, where every field counts.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        if not (unknown := _ignorable(error)):
            raise VersionError(explain(error)[:MOST_EXPLAINED]) from error
    payload = json.loads(text)
    for place in unknown:
        _remove(payload, place)
    return read(model, json.dumps(payload))


def _ignorable(error: ValidationError) -> list[tuple[int | str, ...]]:
    """The places of unknown fields in requests; none if anything else is wrong, because then removal does not help."""
    found = [each["loc"] for each in error.errors() if each["type"] == "extra_forbidden"]
    harmless = len(found) == error.error_count() and all("request" in place for place in found)
    return found if harmless else []


def _remove(payload: Any, place: Sequence[int | str]) -> None:
    *way, last = place
    for key in way:
        # pydantic's locations also contain the name of the union member that it chose, which is not a key
        payload = payload[key] if isinstance(key, int) or key in payload else payload
    del payload[last]


def problem(response: httpx2.Response) -> ClientError:
    """The error that a response stands for: by its code, or by its status if the code is unknown or missing."""
    found = _problem_in(response)
    code = found.code if found else AnswerError.codes[0]
    kind = BY_CODE.get(code, AnswerError)
    if kind is AnswerError:
        kind = ServerError if response.status_code in SERVER_ERRORS else BY_STATUS.get(response.status_code, kind)
    return kind(
        found.detail if found else _foreign(response),
        code=code,
        status=response.status_code,
        request_id=found.request_id if found else response.headers.get("x-request-id"),
        errors=found.errors if found else (),
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def _problem_in(response: httpx2.Response) -> Problem | None:
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        return None


def _foreign(response: httpx2.Response) -> str:
    """A sentence about the response of a proxy or of another service."""
    url, kind = response.request.url.copy_with(query=None), response.headers.get("content-type", "nothing")
    status = f"{response.status_code} {response.reason_phrase}".strip()
    return f"{url} answered {status} with {kind}, which a smoothcert service never does: is the address right?"
