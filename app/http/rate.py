"""The rate at which a key may send requests, which all API processes count together in Redis."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from app.http.errors import ProblemError, UnavailableError
from app.redis.queue import Queue
from store import keys
from store.allowances import Allowance

BURST_SECONDS = 5.0
"""The seconds whose requests a key that was silent may send at once."""
LEASE = 0.1
"""The share of a second's requests that a process takes from Redis at a time, so that most requests need no exchange
with it."""
LEASE_SECONDS = 1.0
"""Seconds after which the uses that a process took and did not need are void."""
MOST_OWNERS = 100_000
"""The most owners that Redis remembers: more than there are keys."""


@dataclass
class Lease:
    """What a process has of an owner's allowance."""

    left: int = 0
    """The uses left."""
    until: float = 0.0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while Redis is asked: requests that come together would each take a lease, and all but one would be lost."""


class RateLimit:
    """Counts the requests of each owner."""

    def __init__(self, queue: Queue, rate: float) -> None:
        """`rate` is the number of requests in a second; 0 for any number."""
        self._queue, self._rate = queue, rate
        self._leases: dict[str, Lease] = {}  # owners are few

    async def spend(self, owner: str) -> None:
        """Count a request; ProblemError if the owner has sent too many."""
        if not self._rate:
            return
        lease = self._leases.setdefault(owner, Lease())
        async with lease.asking:
            if not lease.left or time.monotonic() > lease.until:
                lease.left = await self._granted(owner)
                lease.until = time.monotonic() + LEASE_SECONDS
            lease.left -= 1

    async def _granted(self, owner: str) -> int:
        wanted = max(1, int(LEASE * self._rate))
        uses = max(1, int(BURST_SECONDS * self._rate))
        allowance = Allowance(keys.RATES, seconds=1 / self._rate, uses=uses, members=MOST_OWNERS)
        try:
            given, seconds = await self._queue.spend(allowance, owner, wanted)
        except UnavailableError:
            return uses  # without Redis there is little that a request could use up
        if not given:
            detail = f"this key may send {self._rate:g} requests in a second, and {uses:,} at once"
            raise ProblemError("too_many_requests", detail, retry_after=seconds)
        return given
