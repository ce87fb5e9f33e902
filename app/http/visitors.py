"""What a service does for everybody, even without a key: each address may ask for little, in a thread apart from the
rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from app.executor import BoundedExecutor
from app.http.errors import ProblemError, UnavailableError
from app.redis.queue import Queue
from store import keys
from store.allowances import Allowance

VISITS = Allowance(keys.VISITS, seconds=2.0, uses=20, members=10_000)
"""What an address may ask for without a key: twenty times at once, and then every two seconds."""

Result = TypeVar("Result")


class Visitors:
    """Work for requests without a key; it has a thread of its own, so that the owners of keys do not wait for it."""

    def __init__(self, queue: Queue, *, limited: bool) -> None:
        """`limited` is False for a service without keys, in which nobody is a visitor."""
        self._queue, self._limited = queue, limited
        self._executor = BoundedExecutor()

    async def admit(self, request: Request) -> None:
        """Count a request; ProblemError if its address has sent too many."""
        if not self._limited:
            return
        address = request.client.host if request.client else ""
        try:
            given, seconds = await self._queue.spend(VISITS, address)
        except UnavailableError:
            return  # the thread still does one thing at a time
        if not given:
            detail = f"an address may send {VISITS.uses} files at once, and then one every {VISITS.seconds:g} seconds"
            raise ProblemError("too_many_requests", detail, retry_after=seconds)

    async def run(self, work: Callable[[], Result]) -> Result:
        return await self._executor.run(work)

    def close(self) -> None:
        self._executor.close()
