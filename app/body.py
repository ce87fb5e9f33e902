"""The body of a request: read whole, but never more of it than allowed nor for longer; JSON that reads one way only."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from app.errors import ProblemError, invalid_fields, shown
from app.settings import Settings

SMALL = 65_536
"""Bytes that are read in less time than it takes to hand them to a thread."""
JSON = "application/json"

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


async def read(request: Request, settings: Settings) -> bytes:
    """All bytes of the body; Content-Length is not believed, unless it owns up to too many."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise ProblemError("unsupported_media_type", f"bodies are taken as they are, not with encoding {encoding!r}")
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > settings.request_bytes):
        detail = f"the body has {claimed[:20]} bytes, a request may have {settings.request_bytes:,}"
        raise ProblemError("too_large", detail, headers={"Connection": "close"})
    try:
        async with asyncio.timeout(settings.request_seconds):
            return await _up_to(settings.request_bytes, request)
    except TimeoutError:
        detail = f"the body had not arrived after {settings.request_seconds:g} s"
        raise ProblemError("too_slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise ProblemError("bad_request", "the connection ended before the body did") from None


async def _up_to(most: int, request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise ProblemError("too_large", f"the body has more than {most:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def content_type(request: Request, *known: str) -> str:
    """The content type without its parameters, if it is one of those known here."""
    essence = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if essence not in known:
        seen = repr(essence) if essence else "none"
        raise ProblemError("unsupported_media_type", f"the content type is {seen}, wanted: {', '.join(known)}")
    return essence


async def beside(size: int, work: Callable[[], Result]) -> Result:
    """The work on so many bytes; in a thread where it would keep other requests waiting."""
    return work() if size <= SMALL else await asyncio.to_thread(work)


async def read_json(request: Request, settings: Settings, model: type[Model]) -> Model:
    """A body of JSON alone."""
    content_type(request, JSON)
    body = await read(request, settings)
    return await beside(len(body), lambda: parse(body, model))


def parse(body: bytes, model: type[Model]) -> Model:
    """The model that a text in JSON states, if it can be read in one way only."""
    require_one_reading(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        code = "malformed_json" if error.errors()[0]["type"] == "json_invalid" else "invalid_request"
        raise invalid_fields(error, code=code) from None


def require_one_reading(body: bytes) -> None:
    """That this is JSON, without NaN, and no key comes twice: readers differ in which of the two they take."""
    try:
        json.loads(body.decode(), object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except RecursionError:
        raise ProblemError("malformed_json", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise ProblemError("malformed_json", f"the JSON cannot be read: {error}") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(twice)} comes twice")
    return said


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
