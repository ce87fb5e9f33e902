"""Answers of the service: what they say, or the error that they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import httpx
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

MOST_SAID = 500
"""Characters of what is wrong with an answer; it may be wrong in a thousand places."""

Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], text: str | bytes) -> Model:
    """What an answer says; VersionError where it is not understood.

    What a later version of the service has added is passed over, but in a certificate, where everything counts.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        if not (unknown := _passed_over(error)):
            raise VersionError(explain(error)[:MOST_SAID]) from error
    said = json.loads(text)
    for place in unknown:
        _remove(said, place)
    return read(model, json.dumps(said))


def _passed_over(error: ValidationError) -> list[tuple[int | str, ...]]:
    """The unknown fields of requests; none where anything else is wrong, which no removal would help."""
    found = [each["loc"] for each in error.errors() if each["type"] == "extra_forbidden"]
    harmless = len(found) == error.error_count() and all("request" in place for place in found)
    return found if harmless else []


def _remove(said: Any, place: Sequence[int | str]) -> None:
    *way, last = place
    for key in way:
        # pydantic's ways also name the kind that it took a value for, which is no key
        said = said[key] if isinstance(key, int) or key in said else said
    del said[last]


def problem(response: httpx.Response) -> ClientError:
    """The error that an answer is, by its code; by its status where the code is of a later version or there is none."""
    said = _problem_in(response)
    code = said.code if said else AnswerError.codes[0]
    kind = BY_CODE.get(code, AnswerError)
    if kind is AnswerError:
        kind = ServerError if response.status_code in SERVER_ERRORS else BY_STATUS.get(response.status_code, kind)
    return kind(
        said.detail if said else _foreign(response),
        code=code,
        status=response.status_code,
        request_id=said.request_id if said else response.headers.get("x-request-id"),
        errors=said.errors if said else (),
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def _problem_in(response: httpx.Response) -> Problem | None:
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        return None


def _foreign(response: httpx.Response) -> str:
    """What a proxy or another service answered."""
    url, kind = response.request.url.copy_with(query=None), response.headers.get("content-type", "nothing")
    said = f"{response.status_code} {response.reason_phrase}".strip()
    return f"{url} answered {said} with {kind}, which no smoothcert service does: is the address right?"
