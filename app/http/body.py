"""The body of a request, read within limits of size and time, and JSON that can be read in one way only.

The bodies of all requests of a process share one budget of memory, which `Bodies` keeps.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from app.http.errors import ProblemError, invalid_fields
from app.settings import ApiSettings
from smoothcert.certificate import without_repetition
from store.waiting import ANONYMOUS

SMALL = 65_536
"""Bytes up to which a body is processed at once: to hand it to a thread would take longer."""
THREADS = 4
"""The number of bodies that are processed at a time; each has copies of its own meanwhile."""
MOST_VALUES = 100_000
"""The number of values in a JSON text. A value takes about twenty times its bytes, and an error about it a thousand."""
RETRY_SECONDS = 2
"""The Retry-After while the budget of memory is spent: most bodies are processed in less."""
JSON = "application/json"

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


class Bodies:
    """The budget of bytes that the requests of this process may hold together."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self.held_by: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="body")

    @contextmanager
    def share(self, owner: str = ANONYMOUS) -> Iterator[Share]:
        """The share of one request, which is given back at the end of the context; '' owns those without a key."""
        share = Share(self, owner)
        try:
            yield share
        finally:
            self.held -= share.size
            self.held_by[owner] -= share.size

    async def run_in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


class Share:
    """The part of the budget that one request holds."""

    def __init__(self, bodies: Bodies, owner: str) -> None:
        self._bodies, self._owner, self.size = bodies, owner, 0

    def take(self, size: int) -> None:
        """Take `size` bytes more; ProblemError if that exceeds the budget, alone or together with other requests."""
        most, beside = self._bodies.most, self._bodies.held_by[self._owner] - self.size
        if self.size + size > most:
            raise ProblemError(
                "too_large", f"the request takes {self.size + size:,} bytes of memory, at most {most:,} are available"
            )
        if self._bodies.held + size > most:
            detail = f"the requests under way hold {self._bodies.held:,} bytes of {most:,}; try again in a moment"
            raise ProblemError("overloaded", detail, retry_after=RETRY_SECONDS)
        if self._owner != ANONYMOUS and beside and beside + self.size + size > most // 2:
            detail = (
                f"other requests of this key hold {beside:,} bytes; of several, {most // 2:,} are accepted at a time"
            )
            raise ProblemError("too_many_requests", detail, retry_after=RETRY_SECONDS)
        self.size += size
        self._bodies.held += size
        self._bodies.held_by[self._owner] += size

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work on these bytes; in a thread if it would keep other requests waiting."""
        return work() if self.size <= SMALL else await self._bodies.run_in_thread(work)


async def read(request: Request, settings: ApiSettings, share: Share) -> bytes:
    """All bytes of the body. They are counted as they arrive; a Content-Length is believed only if it is too large."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise ProblemError(
            "unsupported_media_type", f"the body has content encoding {encoding!r}; only identity is accepted"
        )
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > settings.request_bytes):
        detail = f"the body has {claimed[:20]} bytes, at most {settings.request_bytes:,} are accepted"
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
    body = bytearray()  # a list of chunks would take twenty times the memory if each has two bytes
    async for chunk in request.stream():
        if len(body) + len(chunk) > most:
            raise ProblemError(
                "too_large", f"the body has more than {most:,} bytes, which is the most that is accepted"
            )
        share.take(len(chunk))
        body += chunk
    return bytes(body)


def content_type(request: Request, *known: str) -> str:
    """The content type without its parameters; ProblemError if it is not one of `known`."""
    essence = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if essence not in known:
        seen = repr(essence) if essence else "none"
        raise ProblemError("unsupported_media_type", f"the content type must be one of {', '.join(known)}; got {seen}")
    return essence


async def read_json(
    request: Request, settings: ApiSettings, bodies: Bodies, model: type[Model], *, owner: str
) -> Model:
    """The model in a request whose body is JSON."""
    content_type(request, JSON)
    with bodies.share(owner) as share:
        body = await read(request, settings, share)
        return await share.run(lambda: parse(body, model))


def parse(body: bytes, model: type[Model]) -> Model:
    """The model that a JSON text states; ProblemError if the text is not valid or can be read in two ways."""
    require_one_reading(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        alone = error.error_count() == 1
        code = "malformed_json" if alone and error.errors()[0]["type"] == "json_invalid" else "invalid_request"
        raise invalid_fields(error, code=code) from None


def require_one_reading(body: bytes) -> None:
    """Refuse what is not JSON, NaN, and keys that occur twice: readers differ in which of the two values they take."""
    require_few_values(body)
    try:
        json.loads(body.decode(), object_pairs_hook=without_repetition, parse_constant=_no_constant)
    except RecursionError:
        raise ProblemError("malformed_json", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise ProblemError("malformed_json", f"the JSON cannot be read: {error}") from None


def require_few_values(body: bytes) -> None:
    """Refuse a text that would take too much memory when it is parsed."""
    if (values := sum(map(body.count, (b",", b"[", b"{")))) > MOST_VALUES:  # an upper bound: strings have commas, too
        raise ProblemError("too_large", f"the JSON has up to {values:,} values, at most {MOST_VALUES:,} are accepted")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
