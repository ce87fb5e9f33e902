"""What the routes share: one of each in a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.executor import Calculator
from app.http.body import Bodies
from app.http.errors import ProblemError
from app.metrics import Traffic
from app.redis.queue import Queue
from app.redis.retry_after import Turns
from app.settings import Settings
from store.presence import Offer


@dataclass(frozen=True)
class Service:
    """The parts of a running API."""

    settings: Settings
    queue: Queue
    traffic: Traffic
    turns: Turns
    bodies: Bodies
    planner: Calculator
    verifier: Calculator

    async def offer(self, name: str | None) -> Offer:
        """The ensemble that a request names; one that was announced just now is found, too."""
        roster = await self.queue.roster()
        try:
            return roster.offer(name)
        except ProblemError:
            return (await self.queue.roster(fresh=True)).offer(name)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
