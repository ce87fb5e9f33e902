"""API keys: each stands for an owner, and only its sha256 is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from app import logs
from app.http.errors import ProblemError, UnavailableError
from app.http.rate import RateLimit
from app.redis.queue import Queue
from store import keys as redis_keys
from store.allowances import Allowance
from store.waiting import ANONYMOUS

MOST_FAILURES = 10
"""The number of wrong keys that an address may send at once."""
WINDOW_SECONDS = 60.0
"""Seconds in which an address may send as many again."""
MOST_ADDRESSES = 10_000
"""The number of addresses whose failures are remembered; bounds the memory that an attacker can take."""
RETRY_SECONDS = 5
"""The Retry-After while too many requests of a key are under way."""
FAILURES = Allowance(redis_keys.FAILURES, WINDOW_SECONDS / MOST_FAILURES, MOST_FAILURES, MOST_ADDRESSES)
"""The wrong keys of each address, which all API processes count together."""

_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,64}):(?P<digest>[0-9a-f]{64})(?P<high>:high)?")


class KeysError(ValueError):
    """Keys that cannot be read; the service must not start."""


def new_key() -> str:
    """A key of 256 random bits."""
    return f"sk_{secrets.token_urlsafe(32)}"


def digest(key: str) -> str:
    """The sha256 of a key, which is all that is kept of it."""
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True)
class Keys:
    """The keys that open the service."""

    digests: tuple[tuple[str, str], ...]
    """The name of each owner, and the digest of its key."""
    hurried: frozenset[str] = frozenset()
    """The names of the owners that have the right to priority."""

    @classmethod
    def read(cls, text: str) -> Keys:
        """From entries `name:sha256` or `name:sha256:high`, separated by commas, or from a file with one a line."""
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        if len(entries) == 1 and not _ENTRY.fullmatch(entries[0]):
            entries = _lines(Path(entries[0]))
        found = [_ENTRY.fullmatch(entry) for entry in entries]
        if None in found:
            raise KeysError(
                "API keys must be entries name:sha256 in lower-case hex, perhaps with :high at the end; "
                "`python -m app key NAME` makes one"
            )
        if text.strip() and not found:
            raise KeysError("API keys: there is none in the setting, and without keys the service would be open")
        digests = tuple((match["name"], match["digest"]) for match in found if match)
        if len(dict(digests)) < len(digests):
            raise KeysError("API keys: a name occurs twice")
        if ANONYMOUS in dict(digests):
            raise KeysError(
                f"API keys: no key may have the name {ANONYMOUS!r}, which stands for a service without keys"
            )
        return cls(digests, frozenset(match["name"] for match in found if match and match["high"]))

    def __bool__(self) -> bool:
        return bool(self.digests)

    def may_hurry(self, owner: str) -> bool:
        """Whether an owner has the right to priority; without keys, everybody has."""
        return not self or owner in self.hurried

    def owner(self, key: str) -> str | None:
        """The owner of a key, or None; every digest is compared, in constant time."""
        seen, owner = digest(key), None
        for name, known in self.digests:
            if hmac.compare_digest(seen, known):
                owner = name
        return owner


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"API keys: cannot read the file {str(path)!r}: {error}") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


class Authenticator:
    """Finds the owner of a request, slows down attempts to guess keys, and counts the requests of each key."""

    def __init__(self, keys: Keys, queue: Queue, *, rate: float, requests: int) -> None:
        """`rate` is as for RateLimit, `requests` the most of one key that may be under way in this process."""
        self._keys, self._queue, self._rate = keys, queue, RateLimit(queue, rate)
        self._requests, self._under_way = requests, Counter[str]()
        self._refused: OrderedDict[str, float] = OrderedDict()  # until when each address has to wait

    async def owner(self, authorization: str | None, address: str) -> str:
        """The owner of the key in an Authorization header; ProblemError if there is none.

        After MOST_FAILURES wrong keys an address is refused with any key, or it could continue to guess. A request
        without a key does not count as a guess.
        """
        if not self._keys:
            return ANONYMOUS
        scheme, key = get_authorization_scheme_param(authorization)
        if scheme.lower() != "bearer" or not key:
            raise _unauthorized("the request has no key; send it as `Authorization: Bearer KEY`")
        self._refuse_guessing(address)
        owner = self._keys.owner(key)
        if owner is None:
            await self._note_failure(address)
            raise _unauthorized("the key is not known here")
        await self._rate.spend(owner)
        return owner

    @contextmanager
    def under_way(self, owner: str) -> Iterator[None]:
        """A context for a request; ProblemError if too many of its owner wait for an end or follow events already."""
        if self._keys and self._under_way[owner] >= self._requests:
            detail = f"{self._requests:,} requests of this key are under way, which is the most that is accepted"
            raise ProblemError("too_many_requests", detail, retry_after=RETRY_SECONDS)
        self._under_way[owner] += 1
        try:
            yield
        finally:
            self._under_way[owner] -= 1

    def _refuse_guessing(self, address: str) -> None:
        wait = self._refused.get(address, 0.0) - time.monotonic()
        if wait > 0:
            raise ProblemError("too_many_failures", f"{MOST_FAILURES} wrong keys within a minute", retry_after=wait)
        self._refused.pop(address, None)

    async def _note_failure(self, address: str) -> None:
        """Count a wrong key. Once all are spent, this process refuses the address without asking Redis."""
        try:
            given, seconds = await self._queue.spend(FAILURES, address)
        except UnavailableError:
            return  # a key has 256 bits: nobody guesses one while Redis is away
        if seconds:
            self._refused[address] = time.monotonic() + seconds
            if len(self._refused) > MOST_ADDRESSES:
                self._refused.popitem(last=False)
        if not given:
            self._refuse_guessing(address)


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="smoothcert"'})


_scheme = HTTPBearer(
    auto_error=False, description="Needed if the service has keys; `python -m app key NAME` makes one."
)


async def _owner(request: Request, _: Annotated[object, Security(_scheme)]) -> AsyncIterator[str]:
    authenticator: Authenticator = request.app.state.authenticator
    address = request.client.host if request.client else ""
    owner = await authenticator.owner(request.headers.get("authorization"), address)
    logs.note(owner=owner)
    with authenticator.under_way(owner):  # until the answer is complete
        yield owner


AUTHORISED = Depends(_owner)
"""A dependency of routes that need a key, if the service has keys."""
Owner = Annotated[str, AUTHORISED]
"""The type of a route's parameter that receives the owner of the key."""
