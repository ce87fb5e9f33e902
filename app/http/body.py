"""The body of a request: read whole, but never more of it than allowed nor for longer; JSON that reads one way only.

All bodies of a process together take so much memory and no more: `Bodies` counts them, and a few threads work on them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from app.http.errors import ProblemError, invalid_fields
from app.settings import Settings
from smoothcert.certificate import without_repetition

SMALL = 65_536
"""Bytes that are read in less time than it takes to hand them to a thread."""
THREADS = 4
"""Bodies that are worked on at a time: each has copies of its own then."""
MOST_VALUES = 100_000
"""Of a text in JSON: each takes some twenty times its bytes, and the words for what is wrong with it a thousand."""
RETRY_SECONDS = 2
JSON = "application/json"

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


class Bodies:
    """The bytes that the requests of this process hold, of which there is a limit."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="body")

    @contextmanager
    def share(self) -> Iterator[Share]:
        """The share of one request, given back in the end."""
        share = Share(self)
        try:
            yield share
        finally:
            self.held -= share.size

    async def beside(self, size: int, work: Callable[[], Result]) -> Result:
        """The work on so many bytes; in a thread where it would keep other requests waiting."""
        return work() if size <= SMALL else await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)


class Share:
    """What one request holds."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self.size = bodies, 0

    def take(self, size: int) -> None:
        """So many bytes more; ProblemError where that is too much, for one alone or for all together."""
        most = self._bodies.most
        if self.size + size > most:
            raise ProblemError("too_large", f"the request takes {self.size + size:,} bytes, there is room for {most:,}")
        if self._bodies.held + size > most:
            detail = f"the requests under way hold {self._bodies.held:,} bytes of {most:,}; try again in a moment"
            raise ProblemError("overloaded", detail, retry_after=RETRY_SECONDS)
        self.size += size
        self._bodies.held += size


async def read(request: Request, settings: Settings, share: Share) -> bytes:
    """All bytes of the body; Content-Length is not believed, unless it owns up to too many."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise ProblemError("unsupported_media_type", f"bodies are taken as they are, not with encoding {encoding!r}")
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > settings.request_bytes):
        detail = f"the body has {claimed[:20]} bytes, a request may have {settings.request_bytes:,}"
        raise ProblemError("too_large", detail, headers={"Connection": "close"})
    try:
        async with asyncio.timeout(settings.request_seconds):
            return await _up_to(settings.request_bytes, request, share)
    except TimeoutError:
        detail = f"the body had not arrived after {settings.request_seconds:g} s"
        raise ProblemError("too_slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise ProblemError("bad_request", "the connection ended before the body did") from None


async def _up_to(most: int, request: Request, share: Share) -> bytes:
    body = bytearray()  # and no list of chunks: those of two bytes take twenty times as much
    async for chunk in request.stream():
        if len(body) + len(chunk) > most:
            raise ProblemError("too_large", f"the body has more than {most:,} bytes")
        share.take(len(chunk))
        body += chunk
    return bytes(body)


def content_type(request: Request, *known: str) -> str:
    """The content type without its parameters, if it is one of those known here."""
    essence = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if essence not in known:
        seen = repr(essence) if essence else "none"
        raise ProblemError("unsupported_media_type", f"the content type is {seen}, wanted: {', '.join(known)}")
    return essence


async def read_json(request: Request, settings: Settings, bodies: Bodies, model: type[Model]) -> Model:
    """A body of JSON alone."""
    content_type(request, JSON)
    with bodies.share() as share:
        body = await read(request, settings, share)
        return await bodies.beside(len(body), lambda: parse(body, model))


def parse(body: bytes, model: type[Model]) -> Model:
    """The model that a text in JSON states, if it can be read in one way only."""
    require_one_reading(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        alone = error.error_count() == 1
        code = "malformed_json" if alone and error.errors()[0]["type"] == "json_invalid" else "invalid_request"
        raise invalid_fields(error, code=code) from None


def require_one_reading(body: bytes) -> None:
    """That this is JSON, without NaN, and no key comes twice: readers differ in which of the two they take."""
    if (values := sum(map(body.count, (b",", b"[", b"{")))) > MOST_VALUES:  # or so many commas in its texts
        raise ProblemError("too_large", f"the JSON has up to {values:,} values, wanted no more than {MOST_VALUES:,}")
    try:
        json.loads(body.decode(), object_pairs_hook=without_repetition, parse_constant=_no_constant)
    except RecursionError:
        raise ProblemError("malformed_json", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise ProblemError("malformed_json", f"the JSON cannot be read: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
