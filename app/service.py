"""What the routes share: one of each in a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.body import Bodies
from app.calculator import Calculator
from app.errors import ProblemError
from app.metrics import Traffic
from app.queue import Queue
from app.settings import Settings
from app.turns import Turns
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
